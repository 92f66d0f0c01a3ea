package dbtest

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/proctest"
)

const bouncerSettings = `[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
auth_type = plain
auth_file = users.txt
pool_mode = transaction
default_pool_size = 3
max_prepared_statements = %d
`

// PgBouncer starts a pooler of transactions that follows as many prepared statements of each
// connection, and returns the URL of the database through it. The test is skipped without a
// PgBouncer of at least version 1.22.
func PgBouncer(t testing.TB, databaseURL string, preparedStatements int) string {
	t.Helper()
	proctest.SkipShort(t)
	path, err := exec.LookPath("pgbouncer")
	if err != nil {
		t.Skip("pgbouncer is not installed")
	}
	version, err := exec.Command(path, "--version").Output()
	if found := regexp.MustCompile(`1\.(\d\d)`).FindSubmatch(version); err != nil || found == nil ||
		string(found[1]) < "22" {
		t.Skipf("%.20s does not follow prepared statements: 1.22 does", version)
	}
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	folder, owner := sharedFolder(t)
	password, _ := u.User.Password()
	address := proctest.FreeAddress()
	for name, text := range map[string]string{
		"users.txt":     fmt.Sprintf("%q %q\n", u.User.Username(), password),
		"pgbouncer.ini": fmt.Sprintf(bouncerSettings, u.Hostname(), u.Port(), portOf(address), preparedStatements),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(tether(t, folder, owner, path, "pgbouncer.ini"))
	u.Host = address
	if !poll(func() bool {
		conn, err := net.Dial("tcp", address)
		return err == nil && conn.Close() == nil
	}) {
		t.Fatalf("PgBouncer at %s does not start", address)
	}
	return u.String()
}
