package task

import (
	"time"

	"github.com/linkforge/linkforge/internal/platform/poll"
)

// Wake has a node look for tasks.
func (s *Store) Wake() { poll.Signal(s.wake) }

// SetTurn sets how long a task runs before waiting tasks are served, and how often nodes check
// that.
func (s *Store) SetTurn(turn, checkEvery time.Duration) { s.turn, s.renewEvery = turn, checkEvery }
