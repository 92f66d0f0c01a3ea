package dbtest

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/proctest"
)

// clickHouseProgram names the program that starts a ClickHouse for tests.
const clickHouseProgram = "LINKFORGE_TEST_CLICKHOUSE_SERVER"

// ClickHouse is a server of one test, which can be killed.
type ClickHouse struct {
	// URL is that of its HTTP interface.
	URL string

	folder  string
	process *exec.Cmd
}

// NewClickHouse starts a server, which ends with the test. Without a program of it the test is
// skipped.
func NewClickHouse(t testing.TB) *ClickHouse {
	t.Helper()
	if os.Getenv(clickHouseProgram) == "" {
		t.Skip("runs by make test-clickhouse")
	}
	c := &ClickHouse{URL: "http://" + proctest.FreeAddress(), folder: t.TempDir()}
	c.Start(t)
	t.Cleanup(c.Kill)
	return c
}

// Start starts the server again with its data, and waits until it answers.
func (c *ClickHouse) Start(t testing.TB) {
	t.Helper()
	c.process = exec.Command(os.Getenv(clickHouseProgram), "-data", c.folder, "-listen",
		strings.TrimPrefix(c.URL, "http://"))
	c.process.Stderr = os.Stderr
	out, err := c.process.StdoutPipe()
	if err == nil {
		err = c.process.Start()
	}
	if err == nil {
		_, err = bufio.NewReader(out).ReadString('\n') // it is ready
	}
	if err != nil {
		t.Errorf("ClickHouse does not start: %v", err)
	}
	polltest.Until(t, "ClickHouse answers", func() bool {
		answer, err := (&http.Client{Timeout: time.Second}).Get(c.URL + "/ping")
		if err != nil {
			return false
		}
		return answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
	})
}

// Kill kills the server by SIGKILL.
func (c *ClickHouse) Kill() {
	_ = c.process.Process.Kill() // it may have ended
	_ = c.process.Wait()
}
