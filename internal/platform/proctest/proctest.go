// Package proctest prepares child processes of tests. Every test that starts a program
// calls SkipShort, so that the quick loop, go test -short, starts none.
package proctest

import (
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
)

// SkipShort skips the test under -short.
func SkipShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes")
	}
}

// Self prepares a process that runs one test of this binary, with further environment variables.
// The process is killed when the test ends. Under -short the calling test is skipped.
func Self(t testing.TB, test string, env ...string) *exec.Cmd {
	t.Helper()
	SkipShort(t)
	process := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+test+"$", "-test.timeout=1m")
	process.Env = append(os.Environ(), env...)
	process.Stderr = os.Stderr
	return process
}

// The ports of FreeAddress lie below the ports that systems give to clients, in blocks.
const (
	firstPort, ports = 12_000, 20_000
	blockSize        = 200
)

// block is the block of ports of this process: it listens on the first port for as long as it
// lives.
var block struct {
	mu   sync.Mutex
	held []net.Listener
	next int // port
}

// FreeAddress returns an unused loopback address. No other call returns it, also none in another
// process of tests, so that it is still free when a server starts or restarts.
func FreeAddress() string {
	block.mu.Lock()
	defer block.mu.Unlock()
	for {
		if block.next%blockSize == 0 {
			port := firstPort + rand.IntN(ports/blockSize)*blockSize
			l, err := net.Listen("tcp", loopback(port))
			if err != nil {
				continue
			}
			block.held, block.next = append(block.held, l), port+1
		}
		address := loopback(block.next)
		block.next++
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			return address
		}
	}
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
