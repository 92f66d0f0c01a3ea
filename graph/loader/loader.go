// Package loader batches the look-ups of one operation: resolvers of a page's items load what
// belongs to them with as many statements as one item takes. It holds nothing longer than an
// operation. Package graph creates Loaders for each operation, and its resolvers load through them.
package loader

import (
	"context"
	"errors"
	"sync"
)

// Loader loads values by key. Keys that are expected together are loaded together when the first of
// them is requested: a connection knows the keys of its page, so nothing waits for further keys.
type Loader[T any] struct {
	load func(ctx context.Context, keys ...string) (map[string]T, error)

	mu      sync.Mutex
	batches map[string]*batch[T]
}

// batch is loaded at once.
type batch[T any] struct {
	keys   []string
	once   sync.Once
	values map[string]T
	err    error
}

var errNotLoaded = errors.New("loading failed for another part of the operation")

// Expect batches the keys that are in no batch yet.
func (l *Loader[T]) Expect(keys []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.join(keys)
}

// Expect batches the keys of items that are in no batch yet. Items with an empty key have none.
func Expect[I, T any](l *Loader[T], items []I, key func(I) string) {
	keys := make([]string, 0, len(items))
	for _, item := range items {
		if one := key(item); one != "" {
			keys = append(keys, one)
		}
	}
	l.Expect(keys)
}

// Get returns the value of a key: the zero value if there is none, or the key is empty.
func (l *Loader[T]) Get(ctx context.Context, key string) (none T, err error) {
	if key == "" {
		return none, nil
	}
	l.mu.Lock()
	l.join([]string{key})
	b := l.batches[key]
	l.mu.Unlock()
	b.once.Do(func() {
		b.err = errNotLoaded // if load panics
		b.values, b.err = l.load(ctx, b.keys...)
	})
	return b.values[key], b.err
}

func (l *Loader[T]) join(keys []string) {
	if l.batches == nil {
		l.batches = map[string]*batch[T]{}
	}
	b := &batch[T]{}
	for _, key := range keys {
		if l.batches[key] == nil {
			l.batches[key] = b
			b.keys = append(b.keys, key)
		}
	}
}

func (l *Loader[T]) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.batches = nil
}
