package admission

import "sync"

// Bound is the work that a subject may have in progress at once. Kind separates subjects that have
// the same name.
type Bound struct {
	Kind, Subject string
	Max           int64
}

// Shares counts work in progress within bounds. In contrast to calls of a Gate, work never waits
// here: the caller fetches as much of it as there is room for. The zero value is ready to use.
type Shares struct {
	mu   sync.Mutex
	used map[Bound]int64
}

// Take takes up to n units that fit into all bounds, and returns how many. Give returns them.
func (s *Shares) Take(n int64, bounds ...Bound) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range bounds {
		n = min(n, b.Max-s.used[b])
	}
	if n <= 0 {
		return 0
	}
	if s.used == nil {
		s.used = map[Bound]int64{}
	}
	for _, b := range bounds {
		s.used[b] += n
	}
	return n
}

// Give returns n units that were taken within bounds.
func (s *Shares) Give(n int64, bounds ...Bound) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range bounds {
		if s.used[b] -= n; s.used[b] == 0 {
			delete(s.used, b)
		}
	}
}

// Used returns the units in progress within a bound.
func (s *Shares) Used(b Bound) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used[b]
}

// Full returns the subjects of a kind that have no unit left.
func (s *Shares) Full(kind string) (subjects []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for b, used := range s.used {
		if b.Kind == kind && used >= b.Max {
			subjects = append(subjects, b.Subject)
		}
	}
	return subjects
}
