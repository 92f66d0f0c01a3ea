package rig

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	t.Parallel()
	s, err := parseStat("42 (odd) (name) S 7 42 42 0 -1 4194560 1 2 3 4 100 50 25 5 20 0 9 0 1 2 3")
	want := stat{name: "odd) (name", parent: 7, used: 1800 * time.Millisecond}
	if err != nil || s != want {
		t.Errorf("got %+v and error %v, want %+v", s, err, want)
	}
	for _, bad := range []string{"", "42 (name", "42 (name) S 7", "42 (name) S 7 42 42 0 -1 4194560 1 2 3 4 much 50 25 5 20"} {
		if s, err := parseStat(bad); err == nil {
			t.Errorf("%q was read as %+v", bad, s)
		}
	}
}

func TestParseMachine(t *testing.T) {
	t.Parallel()
	used, err := parseMachine("cpu  100 10 50 90000 8000 1 2 7 0 0\ncpu0 1 2 3\n")
	if want := 1700 * time.Millisecond; err != nil || used != want {
		t.Errorf("got %s and error %v, want %s", used, err, want)
	}
	if _, err := parseMachine("intr 1 2 3 4 5 6 7 8 9"); err == nil {
		t.Error("another line was read")
	}
}

func TestThisProcessIsFound(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("not on Linux")
	}
	if _, ok := children([]int{os.Getppid()})[os.Getpid()]; !ok || !slices.Contains(Children(os.Getppid()), os.Getpid()) {
		t.Error("this process is no child of its parent")
	}
	if n, err := RSS(os.Getpid()); err != nil || n < 1<<20 {
		t.Errorf("this process has %d bytes, error %v", n, err)
	}
	if _, err := MachineCPU(); err != nil {
		t.Error(err)
	}
}

func TestAProcessThatDoesNotListenIsTold(t *testing.T) {
	t.Parallel()
	address, err := FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	p, err := Start(t.Context(), t.TempDir(), "short", address, []string{"SAID=no port"}, "sh", "-c", "echo $SAID; exit 3")
	if err == nil || !strings.Contains(err.Error(), "short ended instead of listening: exit status 3\nno port") {
		t.Errorf("process %v, error %v", p, err)
	}
}
