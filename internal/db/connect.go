package db

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// connectDeadline bounds CheckConnection, so that a command does not wait for a host that does not respond.
const connectDeadline = 30 * time.Second

// CheckConnection connects to PostgreSQL. The error tells log-in, database, certificate and outage apart, or reports a
// pooler that does not keep sessions. SQLite has no connection.
func (d *DB) CheckConnection(ctx context.Context) error {
	if d.Kind != Postgres {
		return nil
	}
	ctx, cancel := context.WithTimeout(AsOwner(ctx), connectDeadline)
	defer cancel()
	conn, err := d.Conn(ctx)
	if err == nil {
		err = errors.Join(conn.PingContext(ctx), conn.Close())
	}
	if err != nil {
		return fmt.Errorf("PostgreSQL %s: %w", connectProblem(err), err)
	}
	return d.checkSessions(ctx)
}

// refusals say what a server that refuses connections lacks, by SQLSTATE.
var refusals = map[string]string{
	"28P01": "refuses the log-in: check user and password of the URL",
	"28000": "refuses the log-in: check the user and sslmode of the URL, and pg_hba.conf",
	"3D000": "does not have the database of the URL: create it, or correct its name",
	"42501": "refuses the user access to the database: GRANT CONNECT",
	"53300": "has no free connection: raise max_connections, or lower LINKFORGE_DATABASE_POOL",
	"57P03": "accepts no connections at the moment: it starts, stops or recovers",
}

// connectProblem says why a connection failed, and what to do.
func connectProblem(err error) string {
	if problem := refusals[pgCode(err)]; problem != "" {
		return problem
	}
	var (
		authority   x509.UnknownAuthorityError
		host        x509.HostnameError
		certificate x509.CertificateInvalidError
		alert       tls.AlertError
		name        *net.DNSError
		network     net.Error
	)
	switch {
	case errors.As(err, &authority), errors.As(err, &host), errors.As(err, &certificate), errors.As(err, &alert):
		return "presents a certificate that is not accepted: check sslrootcert, sslmode and the host name of the URL"
	case strings.Contains(err.Error(), "refused TLS"): // pgconn has no value for it
		return "has no certificate, which the URL requires: enable ssl on the server, or check sslmode"
	case errors.As(err, &name):
		return "is not reachable: the host name of the URL is unknown"
	case errors.As(err, &network), isUnavailable(err):
		return "is not reachable: check that it runs, and the host and port of the URL"
	}
	return "cannot be used"
}

// parseProblem returns the reason for an invalid URL without repeating it: pgx's own text may contain the password.
func parseProblem(err error) error {
	if file, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("the database URL names a file that cannot be read: %w", file)
	}
	return errors.New("the database URL cannot be read: check its parameters, and percent-encode what is special in a password")
}

// checkRoles returns an error unless the roles of the scopes exist and the connected role has them, or may create and
// grant them. Otherwise a migration in the middle would fail.
func (d *DB) checkRoles(ctx context.Context) error {
	if d.Kind != Postgres {
		return nil
	}
	var user string
	var lacking []string
	if err := d.NewSelect().ColumnExpr("session_user").Scan(ctx, &user); err != nil {
		return fmt.Errorf("PostgreSQL %s: %w", connectProblem(err), err)
	}
	err := d.NewRaw(`SELECT wanted.name FROM unnest(string_to_array(?, ' ')) AS wanted (name)
		CROSS JOIN (SELECT rolcreaterole OR rolsuper AS creates, current_setting('server_version_num')::INTEGER >= 160000 AS strict
			FROM pg_roles WHERE rolname = session_user) AS own
		LEFT JOIN pg_roles AS r ON r.rolname = wanted.name
		WHERE NOT CASE WHEN r.oid IS NULL THEN own.creates
			ELSE pg_has_role(session_user, r.oid, CASE WHEN own.strict THEN 'SET' ELSE 'MEMBER' END)
				OR pg_has_role(session_user, r.oid, 'MEMBER WITH ADMIN OPTION') OR own.creates AND NOT own.strict END`,
		strings.Join([]string{tenantRole, creatorRole, resolverRole, systemRole}, " ")).Scan(ctx, &lacking)
	if err != nil || len(lacking) == 0 {
		return err
	}
	grants := pgx.Identifier{user}.Sanitize()
	return fmt.Errorf("the database role %s can neither create nor use the roles %s: ALTER ROLE %s CREATEROLE, or let an "+
		"administrator run, where they are missing, CREATE ROLE %s; and then GRANT %s TO %s",
		user, strings.Join(lacking, ", "), grants, strings.Join(lacking, "; CREATE ROLE "), strings.Join(lacking, ", "), grants)
}
