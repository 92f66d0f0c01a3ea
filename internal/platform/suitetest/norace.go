//go:build !race

package suitetest

// Race says that the race detector watches: it makes code allocate that does not otherwise.
const Race = false
