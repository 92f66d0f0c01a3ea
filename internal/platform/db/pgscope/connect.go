package pgscope

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
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/errs"
)

// connectDeadline bounds CheckConnection, so that a command does not wait for a host that does not
// respond.
const connectDeadline = 30 * time.Second

// CheckConnection connects. The error distinguishes log-in, database, certificate and outage, or
// reports a pooler that loses prepared statements.
func CheckConnection(ctx context.Context, d *bun.DB) error {
	ctx, cancel := context.WithTimeout(WithScope(ctx, Scope{Role: Owner}), connectDeadline)
	defer cancel()
	conn, err := d.Conn(ctx)
	if err == nil {
		err = errors.Join(conn.PingContext(ctx), conn.Close())
	}
	if err != nil {
		if e, ok := errors.AsType[*errs.Error](err); ok && e.Cause != nil {
			err = e.Cause // its message is for callers of the API
		}
		return fmt.Errorf("PostgreSQL %s: %w", connectProblem(err), err)
	}
	return checkPooler(ctx, d)
}

// refusals explain why a server refuses connections, by SQLSTATE.
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
	if problem := refusals[Code(err)]; problem != "" {
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
	case errors.As(err, &network), IsUnavailable(err):
		return "is not reachable: check that it runs, and the host and port of the URL"
	}
	return "cannot be used"
}

// ParseConfig parses the URL of a server.
func ParseConfig(url string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, parseProblem(err)
	}
	// bun writes literals into its statements, so a cache of prepared statements has no hits. The
	// constant ones (Bind, the scope) are prepared by name.
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = silence
	}
	config.DialFunc = dialer().DialContext
	config.RuntimeParams["application_name"] = "linkforge"
	config.RuntimeParams["standard_conforming_strings"] = "on" // bun's literals rely on it
	return config, nil
}

// parseProblem returns the reason for an invalid URL without repeating it: pgx's own text may
// contain the password.
func parseProblem(err error) error {
	if file, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("the database URL names a file that cannot be read: %w", file)
	}
	return errors.New("the database URL cannot be read: check its parameters, and percent-encode what is special in " +
		"a password")
}
