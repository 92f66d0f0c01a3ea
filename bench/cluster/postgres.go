package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// database is the database's name, and that of the role that the nodes connect as.
const database = "linkforge"

// postgresSettings are those of both servers. A commit is acknowledged when the standby has it on
// its disk too, as soon as synchronous_standby_names has it. WAL is kept for whoever comes back.
const postgresSettings = `listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 150
shared_buffers = 64MB
synchronous_commit = on
wal_level = replica
max_wal_senders = 10
wal_keep_size = 512MB
hot_standby = on
jit = off
timezone = 'UTC'
log_timezone = 'UTC'
`

// postgresServer is one of the two.
type postgresServer struct {
	name, data, address string
	*process
}

// postgresPair are both. Who is the primary changes at the promotion.
type postgresPair struct {
	*host
	programs         map[string]string
	owner, password  string // of the superuser, and of the role linkforge
	primary, standby *postgresServer
}

func (h *host) newPostgres(found map[string]string, owner, password string) *postgresPair {
	pair := &postgresPair{host: h, programs: found, owner: owner, password: password}
	for _, s := range []struct {
		name string
		at   **postgresServer
	}{{"pg1", &pair.primary}, {"pg2", &pair.standby}} {
		*s.at = &postgresServer{name: s.name, data: filepath.Join(h.folder, s.name), address: h.address()}
	}
	return pair
}

// start makes the primary, with the role and the database, and a standby of it that commits wait
// for.
func (p *postgresPair) start(ctx context.Context) error {
	secret := filepath.Join(p.folder, "pg.owner")
	if err := p.write(secret, p.owner); err != nil {
		return err
	}
	err := p.do(ctx, nil, p.programs["initdb"], "--pgdata="+p.primary.data, "--username=postgres", "--pwfile="+secret,
		"--auth=scram-sha-256",
		"--encoding=UTF8", "--locale=C", "--data-checksums") // pg_rewind needs checksums
	if err != nil {
		return err
	}
	if err := p.appendSettings(p.primary); err != nil {
		return err
	}
	if err := p.run(ctx, p.primary); err != nil {
		return err
	}
	err = p.exec(ctx, p.primary,
		// Not a superuser, for whom row-level security would be off.
		"CREATE ROLE "+database+" LOGIN CREATEROLE PASSWORD '"+p.password+"'",
		"CREATE DATABASE "+database+" OWNER "+database)
	if err != nil {
		return err
	}
	err = p.do(ctx, p.libpq(), p.programs["pg_basebackup"], "--pgdata="+p.standby.data, "--write-recovery-conf",
		"--wal-method=stream",
		"--checkpoint=fast", "--dbname="+p.conninfo(p.primary))
	if err != nil {
		return err
	}
	if err := p.run(ctx, p.standby); err != nil {
		return err
	}
	return p.replicate(ctx)
}

func (p *postgresPair) appendSettings(s *postgresServer) error {
	f, err := os.OpenFile(filepath.Join(s.data, "postgresql.conf"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(postgresSettings)
	return errors.Join(err, f.Close())
}

// run starts a server, and waits until it answers.
func (p *postgresPair) run(ctx context.Context, s *postgresServer) (err error) {
	s.process, err = p.launch(s.name, syscall.SIGINT, nil, p.programs["postgres"], "-D", s.data, "-p", portOf(s.address),
		"-c", "cluster_name="+s.name)
	if err != nil {
		return err
	}
	return s.await(ctx, s.name+" answers", func() bool { return p.exec(ctx, s, "SELECT 1") == nil })
}

// replicate has commits wait for the standby from now on, and waits until it has everything.
func (p *postgresPair) replicate(ctx context.Context) error {
	err := p.exec(ctx, p.primary, "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 ("+p.standby.name+")'",
		"SELECT pg_reload_conf()")
	if err != nil {
		return err
	}
	return p.standby.await(ctx, "the standby is synchronous", func() bool {
		n, err := p.number(ctx, p.primary, "SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')")
		return err == nil && n == 1
	})
}

// promote makes the standby the primary. It has been told of no standby of its own, so that its
// commits wait for nobody.
func (p *postgresPair) promote(ctx context.Context) error {
	if err := p.do(ctx, nil, p.programs["pg_ctl"], "promote", "--pgdata="+p.standby.data, "--wait",
		"--silent"); err != nil {
		return err
	}
	p.primary, p.standby = p.standby, p.primary
	return nil
}

// rejoin makes the old primary a standby of the new one.
func (p *postgresPair) rejoin(ctx context.Context) error {
	if err := p.exec(ctx, p.primary, "CHECKPOINT"); err != nil { // pg_rewind looks for the new timeline in what it writes
		return err
	}
	err := p.do(ctx, p.libpq(), p.programs["pg_rewind"], "--target-pgdata="+p.standby.data,
		"--source-server="+p.conninfo(p.primary)+" dbname=postgres",
		"--write-recovery-conf")
	if err != nil {
		return err
	}
	if err := p.run(ctx, p.standby); err != nil {
		return err
	}
	return p.replicate(ctx)
}

// libpq is what PostgreSQL's own programs find the password in, which must not be among their
// arguments.
func (p *postgresPair) libpq() []string { return []string{"PGPASSWORD=" + p.owner} }

func (p *postgresPair) conninfo(s *postgresServer) string {
	return "host=127.0.0.1 port=" + portOf(s.address) + " user=postgres"
}

// url is where the role linkforge finds its database.
func (p *postgresPair) url(address string, query string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(database, p.password), Host: address, Path: database,
		RawQuery: "sslmode=disable" + query}
	return u.String()
}

// exec runs statements on one server as the superuser.
func (p *postgresPair) exec(ctx context.Context, s *postgresServer, statements ...string) (err error) {
	return p.within(ctx, s, "postgres", func(conn *pgx.Conn) error {
		for _, statement := range statements {
			if _, err := conn.Exec(ctx, statement); err != nil {
				return fmt.Errorf("%s on %s: %w", strings.SplitN(statement, " PASSWORD", 2)[0], s.name, err)
			}
		}
		return nil
	})
}

// number is what a query says of Linkforge's database: the superuser sees every workspace.
func (p *postgresPair) number(ctx context.Context, s *postgresServer, query string) (n int64, err error) {
	err = p.within(ctx, s, database, func(conn *pgx.Conn) error { return conn.QueryRow(ctx, query).Scan(&n) })
	return n, err
}

func (p *postgresPair) within(
	ctx context.Context, s *postgresServer, name string, do func(*pgx.Conn) error,
) (err error) {
	u := url.URL{Scheme: "postgres", User: url.UserPassword("postgres", p.owner), Host: s.address, Path: name,
		RawQuery: "sslmode=disable&connect_timeout=5"}
	conn, err := pgx.Connect(ctx, u.String())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	return do(conn)
}

// stop ends both. One that was killed and has not come back leaves a segment of shared memory
// behind: another start would have removed it.
func (p *postgresPair) stop() (err error) {
	if p == nil {
		return nil
	}
	// the primary first, which waits until the standby has everything
	for _, s := range []*postgresServer{p.primary, p.standby} {
		err = errors.Join(err, s.process.stop(), p.removeSegment(s))
	}
	return err
}

// removeSegment does nothing after a server that has ended well: its pid file is gone then. Else
// that tells, in its seventh line, the segment's key and id.
func (p *postgresPair) removeSegment(s *postgresServer) error {
	text, err := os.ReadFile(filepath.Join(s.data, "postmaster.pid"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	lines := strings.Split(string(text), "\n")
	if err != nil || len(lines) < 7 {
		return err
	}
	words := strings.Fields(lines[6])
	if len(words) != 2 {
		return nil
	}
	return p.do(context.Background(), nil, "ipcrm", "-m", words[1])
}
