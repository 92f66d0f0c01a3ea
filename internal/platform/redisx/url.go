package redisx

import (
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/linkforge/linkforge/internal/platform/urlnorm"
)

// schemes are those of one server, of sentinels and of a cluster, without TLS and with it.
var schemes = []string{"redis", "rediss", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"}

// Reasons to refuse a URL. They repeat no part of it, because it may contain a password.
var (
	errScheme = errors.New("must start with redis://, redis+sentinel:// or redis+cluster://, or with rediss for TLS")
	errForm   = errors.New(
		"must be a URL, as in redis://user:password@host:6379/0; what is special in a password is percent-encoded")
	errHosts  = errors.New("must name hosts with commas between them, as in host1:26379,host2:26379")
	errMaster = errors.New(
		"must end with the name that the sentinels have for the master, as in " +
			"redis+sentinel://host1:26379,host2:26379/mymaster")
	errPath    = errors.New("must end with the hosts: a cluster has no databases")
	errUnknown = errors.New(
		"has a parameter that is not known: sentinels take db, sentinel_user and " +
			"sentinel_password, a cluster takes none")
	errNumber = errors.New("must have the number of a database in db, from 0 on")
)

// Check returns the problem of a URL without repeating any part of it. The empty URL is valid.
func Check(redisURL string) error {
	if redisURL == "" {
		return nil
	}
	u, list, err := parse(redisURL)
	if err != nil {
		return err
	}
	if !isList(u) {
		_, err = parseOne(redisURL)
		return err
	}
	_, err = parseList(u, list)
	return err
}

// parse parses a URL with a list of hosts. net/url accepts only one.
func parse(redisURL string) (u *url.URL, list string, err error) {
	scheme, rest, _ := strings.Cut(redisURL, "://")
	authority := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority = rest[:end]
	}
	user, list := authority[:strings.LastIndex(authority, "@")+1], authority[strings.LastIndex(authority, "@")+1:]
	first, _, several := strings.Cut(list, ",")
	if !slices.Contains(schemes, strings.ToLower(scheme)) {
		return nil, "", errScheme
	}
	u, err = url.Parse(scheme + "://" + user + first + rest[len(authority):])
	if err != nil || first == "" || several && !isList(u) || !urlnorm.HasWholeAuthority(redisURL) {
		return nil, "", errForm
	}
	return u, list, nil
}

// isList says that the URL names several servers.
func isList(u *url.URL) bool { return strings.Contains(u.Scheme, "+") }

// parseOne parses the URL of one server. The library's errors are dropped, because they may contain
// the password.
func parseOne(redisURL string) (*redis.Options, error) {
	options, err := redis.ParseURL(redisURL)
	if err != nil {
		return nil, errForm
	}
	return options, nil
}

// parseList reads the URL of sentinels or of a cluster.
func parseList(u *url.URL, list string) (*redis.UniversalOptions, error) {
	o := &redis.UniversalOptions{Username: u.User.Username()}
	o.Password, _ = u.User.Password()
	if strings.HasPrefix(u.Scheme, "rediss") {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12} // each connection checks the name that it has dialled
	}
	if strings.HasSuffix(u.Scheme, "+cluster") {
		return o, cluster(u, list, o)
	}
	return o, sentinels(u, list, o)
}

func cluster(u *url.URL, list string, o *redis.UniversalOptions) (err error) {
	o.IsClusterMode = true
	if strings.Trim(u.Path, "/") != "" {
		return errPath
	}
	if u.RawQuery != "" {
		return errUnknown
	}
	o.Addrs, err = hosts(list, "6379")
	return err
}

// sentinels reads the name of the master, which is the path, and what else is for the sentinels.
// User and password are those of Redis itself: sentinels often have none.
func sentinels(u *url.URL, list string, o *redis.UniversalOptions) (err error) {
	if o.MasterName = strings.Trim(u.Path, "/"); o.MasterName == "" || strings.Contains(o.MasterName, "/") {
		return errMaster
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return errUnknown
	}
	for name := range query {
		if !slices.Contains([]string{"db", "sentinel_user", "sentinel_password"}, name) {
			return errUnknown
		}
	}
	o.SentinelUsername, o.SentinelPassword = query.Get("sentinel_user"), query.Get("sentinel_password")
	if db := query.Get("db"); db != "" {
		if o.DB, err = strconv.Atoi(db); err != nil || o.DB < 0 {
			return errNumber
		}
	}
	o.Addrs, err = hosts(list, "26379")
	return err
}

// hosts reads a list of hosts, each with a port or without.
func hosts(list, port string) (addresses []string, err error) {
	for host := range strings.SplitSeq(list, ",") {
		u, err := url.Parse("redis://" + host)
		if err != nil || u.Hostname() == "" || u.Host != host {
			return nil, errHosts
		}
		number := u.Port()
		if number == "" {
			number = port
		}
		if n, err := strconv.ParseUint(number, 10, 16); err != nil || n == 0 {
			return nil, errHosts
		}
		addresses = append(addresses, net.JoinHostPort(u.Hostname(), number))
	}
	return addresses, nil
}
