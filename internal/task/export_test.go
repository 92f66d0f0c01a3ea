package task

import "github.com/linkforge/linkforge/internal/poll"

// Wake has a node look for tasks.
func (s *Store) Wake() { poll.Signal(s.wake) }
