package main

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
)

// poolerSettings pool sessions: Linkforge refuses anything else. A server that refuses connections
// is tried again after a second, not after 15, and whoever waits for it is told so after ten.
const poolerSettings = `[databases]
%[1]s = host=127.0.0.1 port=%[2]s dbname=%[1]s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %[3]s
unix_socket_dir =
auth_type = scram-sha-256
auth_file = %[4]s
pool_mode = session
default_pool_size = 100
max_client_conn = 300
server_login_retry = 1
server_connect_timeout = 3
query_wait_timeout = 10
`

// pooler is PgBouncer.
type pooler struct {
	*host
	binary, address, folder string
	*process
}

// startPooler starts PgBouncer in front of a PostgreSQL.
func (h *host) startPooler(ctx context.Context, binary, password, target string) (*pooler, error) {
	folder, err := h.room("pgbouncer")
	if err != nil {
		return nil, err
	}
	p := &pooler{host: h, binary: binary, address: h.address(), folder: folder}
	if err := h.write(p.file("users.txt"), fmt.Sprintf("%q %q\n", database, password)); err != nil {
		return nil, err
	}
	if err := p.lead(target); err != nil {
		return nil, err
	}
	if p.process, err = h.launch("pgbouncer", syscall.SIGINT, nil, binary, p.file("pgbouncer.ini")); err != nil {
		return nil, err
	}
	return p, p.await(ctx, "PgBouncer listens", func() bool { return listens(p.address) })
}

func (p *pooler) file(name string) string { return filepath.Join(p.folder, name) }

// lead writes where PgBouncer leads to.
func (p *pooler) lead(target string) error {
	return p.write(p.file("pgbouncer.ini"), fmt.Sprintf(poolerSettings, database, portOf(target), portOf(p.address),
		p.file("users.txt")))
}

// repoint leads to another PostgreSQL from now on. The signal is what RELOAD on PgBouncer's console
// does.
func (p *pooler) repoint(target string) error {
	if err := p.lead(target); err != nil {
		return err
	}
	return p.cmd.Process.Signal(syscall.SIGHUP)
}
