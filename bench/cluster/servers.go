package main

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// layout is all servers.
type layout struct {
	*rig.Run
	owner, password  string // of PostgreSQL's superuser, and of the role linkforge and of Redis
	primary, standby *postgres
	redis            []*redisServer
	pooler, proxy    *rig.Process
	nodes            []*node
	roots            *x509.CertPool
	public           string // host:port of clients
}

type postgres struct {
	name, data, address string
	*rig.Process
}

type redisServer struct {
	client *redis.Client
	*rig.Process
}

type node struct {
	admin string
	*rig.Process
}

// start starts everything, dependencies first.
func (l *layout) start() {
	l.User = unprivileged()
	l.owner, l.password = rand.Text(), rand.Text()
	rig.Parallel(l.startPostgres, l.startRedis)
	l.Say("PostgreSQL, its standby and a Redis Cluster of %d are up", len(l.redis))
	databaseURL := l.url(l.primary.address+","+l.standby.address, "&target_session_attrs=read-write&connect_timeout=3")
	if !*direct {
		databaseURL = l.startPooler()
	}
	proxyAddress := rig.FreeAddress()
	l.public = "localhost:" + rig.Port(proxyAddress)
	l.startNodes(databaseURL)
	l.startProxy(proxyAddress)
	l.Say("%d nodes are ready behind nginx at https://%s", len(l.nodes), l.public)
}

// unprivileged is the user of the servers when root starts the drill: PostgreSQL and PgBouncer
// refuse to run as root.
func unprivileged() *syscall.Credential {
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		u = rig.Must(user.Lookup("nobody"))
	}
	uid, gid := rig.Must(strconv.Atoi(u.Uid)), rig.Must(strconv.Atoi(u.Gid))
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func (l *layout) give(path string) {
	if l.User != nil {
		rig.Check(os.Chown(path, int(l.User.Uid), int(l.User.Gid)))
	}
}

// folder creates a folder of the servers' user.
func (l *layout) folder(name string) string {
	path := filepath.Join(l.Folder, name)
	rig.Check(os.Mkdir(path, 0o700))
	l.give(path)
	return path
}

// write writes a file that only the servers' user can read.
func (l *layout) write(path, text string) string {
	rig.Check(os.WriteFile(path, []byte(text), 0o600))
	l.give(path)
	return path
}

// postgresSettings are those of both servers. A commit waits for the disk of the standby as soon as
// synchronous_standby_names is set.
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

// startPostgres starts the primary, with the role and the database, and a synchronous standby.
func (l *layout) startPostgres() {
	l.primary = &postgres{name: "pg1", data: filepath.Join(l.folder("pg1"), "data"), address: rig.FreeAddress()}
	l.standby = &postgres{name: "pg2", data: filepath.Join(l.folder("pg2"), "data"), address: rig.FreeAddress()}
	secret := l.write(filepath.Join(l.Folder, "pg.owner"), l.owner)
	rig.Must(l.Output(nil, rig.Program("initdb"), "--pgdata="+l.primary.data, "--username=postgres", "--pwfile="+secret,
		"--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--data-checksums")) // pg_rewind needs checksums
	settings := filepath.Join(l.primary.data, "postgresql.conf")
	l.write(settings, string(rig.Must(os.ReadFile(settings)))+postgresSettings)
	l.runPostgres(l.primary)
	l.Exec(l.ownerURL(l.primary, "postgres"),
		// Not a superuser, for whom row-level security would be off.
		"CREATE ROLE linkforge LOGIN CREATEROLE PASSWORD '"+l.password+"'", "CREATE DATABASE linkforge OWNER linkforge")
	rig.Must(l.Output(rig.LibpqEnv(l.ownerURL(l.primary, "postgres")), rig.Program("pg_basebackup"),
		"--pgdata="+l.standby.data, "--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast"))
	l.runPostgres(l.standby)
	l.replicate()
}

func (l *layout) runPostgres(s *postgres) {
	s.Process = l.Start(rig.Command{Name: s.name, Address: s.address, Quit: syscall.SIGINT, Args: []string{
		rig.Program("postgres"), "-D", s.data, "-p", rig.Port(s.address), "-c", "cluster_name=" + s.name}})
	l.Await(s.name+" responds", func() bool {
		return rig.Try(func() { l.Exec(l.ownerURL(s, "postgres"), "SELECT 1") }) == nil
	})
}

// replicate makes commits wait for the standby, and waits until it is in sync.
func (l *layout) replicate() {
	at := l.ownerURL(l.primary, "postgres")
	l.Exec(at, "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 ("+l.standby.name+")'", "SELECT pg_reload_conf()")
	l.Await("the standby is synchronous", func() (synchronous bool) {
		l.In(at, false, func(d *sql.DB) {
			rig.Check(d.QueryRowContext(l,
				"SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')").
				Scan(&synchronous))
		})
		return synchronous
	})
}

// promote promotes the standby. It has no standby of its own, so that its commits do not wait.
func (l *layout) promote() {
	rig.Must(l.Output(nil, rig.Program("pg_ctl"), "promote", "--pgdata="+l.standby.data, "--wait", "--silent"))
	l.primary, l.standby = l.standby, l.primary
	if l.pooler != nil {
		l.pointPooler()
		l.pooler.Signal(syscall.SIGHUP) // as RELOAD on PgBouncer's console
	}
}

// rejoinPostgres makes the old primary a standby of the new one.
func (l *layout) rejoinPostgres() {
	source := l.ownerURL(l.primary, "postgres")
	l.Exec(source, "CHECKPOINT") // writes the new timeline for pg_rewind
	rig.Must(l.Output(rig.LibpqEnv(source), rig.Program("pg_rewind"), "--target-pgdata="+l.standby.data,
		"--source-server=dbname=postgres", "--write-recovery-conf"))
	l.runPostgres(l.standby)
	l.replicate()
}

// killPrimary kills the primary. If it is not started again, the end of the run removes its shared
// memory segment, which the seventh line of its pid file names.
func (l *layout) killPrimary() {
	file := filepath.Join(l.primary.data, "postmaster.pid")
	l.primary.Kill()
	l.Cleanup(func() error {
		cleanup := rig.Run{Context: context.Background(), Folder: l.Folder}
		_, err := cleanup.Output(nil, "sh", "-c", "[ ! -f "+file+" ] || ipcrm -m $(sed -n '7s/.* //p' "+file+")")
		return err
	})
}

func (l *layout) ownerURL(s *postgres, database string) string {
	return databaseURL("postgres", l.owner, s.address, database, "&connect_timeout=5")
}

// url is that of the nodes' database.
func (l *layout) url(address, query string) string {
	return databaseURL("linkforge", l.password, address, "linkforge", query)
}

func databaseURL(role, password, address, database, query string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(role, password), Host: address, Path: database,
		RawQuery: "sslmode=disable" + query}
	return u.String()
}

const (
	masters = 3
	// nodeTimeout is how long a master may be silent before its replica takes over.
	nodeTimeout = time.Second
)

// startRedis starts a cluster of three masters with a replica each.
func (l *layout) startRedis() {
	create := []string{rig.Program("redis-cli"), "--cluster", "create"}
	for i := range 2 * masters {
		name, address := fmt.Sprintf("redis%d", i+1), rig.FreeAddress()
		folder := l.folder(name)
		file := l.write(filepath.Join(folder, "redis.conf"), strings.Join([]string{
			"port " + rig.Port(address), "bind 127.0.0.1", "dir " + folder, "daemonize no", "requirepass " + l.password,
			"masterauth " + l.password, `save ""`, "appendonly no", "maxmemory-policy noeviction",
			"cluster-enabled yes",
			fmt.Sprintf("cluster-node-timeout %d", nodeTimeout.Milliseconds()), "repl-diskless-sync-delay 0",
		}, "\n")+"\n")
		s := &redisServer{client: redis.NewClient(&redis.Options{Addr: address, Password: l.password, MaxRetries: -1})}
		s.Process = l.Start(rig.Command{Name: name, Address: address,
			Args: []string{rig.Program("redis-server"), file}})
		l.redis, create = append(l.redis, s), append(create, address)
	}
	rig.Must(l.Output([]string{"REDISCLI_AUTH=" + l.password}, append(create, "--cluster-replicas", "1",
		"--cluster-yes")...))
	for _, s := range l.redis {
		l.Await("the Redis cluster is complete", func() bool {
			replication := s.client.Info(l, "replication").Val()
			return strings.Contains(s.client.ClusterInfo(l).Val(), "cluster_state:ok") &&
				(strings.Contains(replication, "role:master") || strings.Contains(replication, "master_link_status:up"))
		})
	}
}

func (l *layout) redisURL() string {
	var addresses []string
	for _, s := range l.redis {
		addresses = append(addresses, s.Address)
	}
	return "redis+cluster://:" + l.password + "@" + strings.Join(addresses, ",")
}

// masterOf returns the server that stores a key.
func (l *layout) masterOf(key string) *redisServer {
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{l.redis[0].Address}, Password: l.password})
	defer cluster.Close()
	master := rig.Must(cluster.MasterForKey(l, key)).Options().Addr
	for _, s := range l.redis {
		if s.Address == master {
			return s
		}
	}
	rig.Failf("no server has the address %s", master)
	return nil
}

// rejoinRedis starts a server that was killed; it becomes a replica.
func (l *layout) rejoinRedis(s *redisServer) {
	s.Process = l.Start(s.Command)
	l.Await(s.Name+" follows its master", func() bool {
		return strings.Contains(s.client.Info(l, "replication").Val(), "master_link_status:up")
	})
}

// poolerSettings pool sessions: before version 1.22, PgBouncer cannot pool transactions for
// Linkforge. PgBouncer retries a server that refuses connections after a second, and clients wait
// for it for ten.
const poolerSettings = `[databases]
linkforge = host=127.0.0.1 port=%s dbname=linkforge
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
auth_type = scram-sha-256
auth_file = %s
pool_mode = session
default_pool_size = 100
max_client_conn = 300
server_login_retry = 1
server_connect_timeout = 3
query_wait_timeout = 10
`

// startPooler starts PgBouncer, and returns the URL of the database through it.
func (l *layout) startPooler() string {
	folder := l.folder("pgbouncer")
	l.write(filepath.Join(folder, "users.txt"), fmt.Sprintf("\"linkforge\" %q\n", l.password))
	l.pooler = &rig.Process{Command: rig.Command{Address: rig.FreeAddress()}}
	l.pointPooler()
	l.pooler = l.Start(rig.Command{Name: "pgbouncer", Address: l.pooler.Address, Quit: syscall.SIGINT,
		Args: []string{rig.Program("pgbouncer"), filepath.Join(folder, "pgbouncer.ini")}})
	return l.url(l.pooler.Address, "&connect_timeout=3")
}

// pointPooler configures PgBouncer for the primary.
func (l *layout) pointPooler() {
	folder := filepath.Join(l.Folder, "pgbouncer")
	l.write(filepath.Join(folder, "pgbouncer.ini"), fmt.Sprintf(poolerSettings, rig.Port(l.primary.address),
		rig.Port(l.pooler.Address), filepath.Join(folder, "users.txt")))
}

// startNodes starts all nodes at once: they take turns to migrate. Settings that are not here have
// their defaults. Destinations are not checked, since they do not exist. Redirects are not limited,
// since all visitors have one address.
func (l *layout) startNodes(databaseURL string) {
	data := l.folder("nodes")
	common := []string{
		"LINKFORGE_ENV=production", "LINKFORGE_REGISTRATION=open", "LINKFORGE_PUBLIC_URL=https://" + l.public,
		"LINKFORGE_TRUSTED_PROXIES=127.0.0.1",
		"LINKFORGE_DATABASE_URL=" + databaseURL, "LINKFORGE_REDIS_URL=" + l.redisURL(),
		"LINKFORGE_DRAIN_DELAY=" + drain.String(), "LINKFORGE_JWT_SECRET=" + rand.Text() + rand.Text(),
		"LINKFORGE_CODE_SECRET=" + rand.Text() + rand.Text(), "LINKFORGE_DESTINATION_CHECKS=off",
		"LINKFORGE_LINK_RATE=0", "LINKFORGE_UNKNOWN_CODES=0",
	}
	var all []func()
	for i := range 3 {
		n := &node{admin: rig.FreeAddress()}
		name, address := fmt.Sprintf("node%d", i+1), rig.FreeAddress()
		n.Process = &rig.Process{Command: rig.Command{Name: name, Address: address, Args: []string{l.Server, "serve"},
			Env: append([]string{"LINKFORGE_LISTEN=" + address, "LINKFORGE_ADMIN_LISTEN=" + n.admin,
				"LINKFORGE_DATA_DIR=" + filepath.Join(data, name)}, common...)}}
		l.nodes = append(l.nodes, n)
		all = append(all, func() { l.runNode(n) })
	}
	rig.Parallel(all...)
}

func (l *layout) runNode(n *node) {
	n.Process = l.Start(n.Command)
	l.AwaitReady(n.Process)
}

// proxyFile is nginx's documented configuration, in the server's module.
const proxyFile = "docs/deploy/nginx.conf"

// startProxy starts nginx in front of the nodes, with a certificate that only this run trusts.
func (l *layout) startProxy(address string) {
	folder := l.folder("nginx")
	certificate, key := filepath.Join(folder, "tls.pem"), filepath.Join(folder, "tls.key")
	rig.Must(l.Output(nil, rig.Program("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt",
		"ec_paramgen_curve:prime256v1", "-nodes", "-days", "30", "-subj", "/CN=localhost", "-addext",
		"subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate))
	l.roots = x509.NewCertPool()
	l.roots.AppendCertsFromPEM(rig.Must(os.ReadFile(certificate)))
	text := string(rig.Must(os.ReadFile(filepath.Join(rig.Root(l), proxyFile))))
	file := l.write(filepath.Join(folder, "nginx.conf"), l.adapt(text, folder, address, certificate, key))
	l.proxy = l.Start(rig.Command{Name: "nginx", Address: address, Args: []string{rig.Program("nginx"), "-e",
		"stderr", "-p", folder, "-c", file, "-g", "daemon off; pid " + filepath.Join(folder, "pid") + ";"}})
}

// proxyNodes are the nodes of a pool: lines that differ only in the address.
var proxyNodes = regexp.MustCompile(
	`(?m)(^[ \t]*server )10\.\d+\.\d+\.\d+:\d+( [^\n]*;\n)(?:[ \t]*server 10\.[^\n]*;\n)*`)

// adapt replaces the addresses and files in the documented configuration. It fails when one is
// missing, because the drill must test the documented configuration.
func (l *layout) adapt(text, folder, address, certificate, key string) string {
	if !proxyNodes.MatchString(text) {
		rig.Failf("%s has no node", proxyFile)
	}
	var nodes, temporary strings.Builder
	for _, n := range l.nodes {
		nodes.WriteString("${1}" + n.Address + "${2}")
	}
	text = proxyNodes.ReplaceAllString(text, nodes.String())
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&temporary, "\t%s_temp_path %s;\n", kind, filepath.Join(folder, kind))
	}
	for _, change := range [][2]string{
		{"http {\n", "http {\n\taccess_log off;\n" + temporary.String()},
		{"listen 80;", "listen " + rig.FreeAddress() + ";"}, {"listen 443 ", "listen " + address + " "},
		{"/etc/nginx/tls/sho.rt.pem", certificate}, {"/etc/nginx/tls/sho.rt.key", key},
		{"server_name sho.rt;", "server_name localhost;"},
	} {
		if !strings.Contains(text, change[0]) {
			rig.Failf("%s has no %q", proxyFile, strings.TrimSpace(change[0]))
		}
		text = strings.ReplaceAll(text, change[0], change[1])
	}
	return text
}
