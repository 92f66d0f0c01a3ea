package config

import (
	"encoding/base64"
	"errors"
	"net/netip"
	"slices"
	"strings"

	"github.com/linkforge/linkforge/internal/platform/urlnorm"
)

// checkTLS is a part of checkCombinations.
func (r *reader) checkTLS() {
	if (r.TLSCertificate == "") != (r.TLSKey == "") {
		r.report("LINKFORGE_TLS_KEY", "goes with LINKFORGE_TLS_CERTIFICATE: set both or none")
	}
	if (r.ACME.KeyID == "") != (r.ACME.Key == "") && r.isValid("LINKFORGE_ACME_EAB_HMAC") {
		r.report("LINKFORGE_ACME_EAB_HMAC", "goes with LINKFORGE_ACME_EAB_KEY_ID: set both or none")
	}
	if !r.TLSAuto {
		r.refuseWithoutAuto()
		return
	}
	if r.TLSCertificate != "" {
		r.report("LINKFORGE_TLS_CERTIFICATE", "is of no use with LINKFORGE_TLS=auto: remove one of them")
	}
	if r.texts["LINKFORGE_ACME_EMAIL"] == "" {
		r.report("LINKFORGE_ACME_EMAIL",
			"is required with LINKFORGE_TLS=auto: the address of your account at the authority, whose terms you "+
				"accept with it")
	}
	if len(r.CertifiedHosts()) == 0 && r.isValid("LINKFORGE_PUBLIC_URL") {
		r.report("LINKFORGE_PUBLIC_URL",
			"must be an https URL with a public host name with LINKFORGE_TLS=auto, as in https://sho.rt")
	}
	if r.texts["LINKFORGE_ENCRYPTION_KEY"] == "" && !r.Embedded() {
		r.report("LINKFORGE_ENCRYPTION_KEY", "is required with LINKFORGE_TLS=auto and a database URL: it encrypts "+
			"the keys of certificates; this makes a good one: openssl rand -base64 32")
	}
	for _, listen := range []struct{ env, address string }{
		{"LINKFORGE_LISTEN", r.Listen}, {"LINKFORGE_HTTP_LISTEN", r.ACME.HTTPListen},
	} {
		if strings.HasSuffix(listen.address, ":0") {
			r.report(listen.env, "must have a port with LINKFORGE_TLS=auto: the authority connects to it")
		}
	}
}

// refuseWithoutAuto reports the settings that are set, and of use with LINKFORGE_TLS=auto only.
func (r *reader) refuseWithoutAuto() {
	// those without a default
	for _, env := range []string{"LINKFORGE_ACME_EMAIL", "LINKFORGE_ACME_EAB_KEY_ID", "LINKFORGE_ACME_CA"} {
		if r.texts[env] != "" && r.isValid("LINKFORGE_TLS") {
			r.report(env, "is of no use without LINKFORGE_TLS=auto: set that, or remove this one")
		}
	}
}

// CertifiedHosts returns the hosts of the instance that an authority can certify, that of PublicURL
// first; none if PublicURL has none. Localhost, addresses and names without a dot are not among
// them.
func (c Config) CertifiedHosts() (hosts []string) {
	u, err := urlnorm.Canonical(c.PublicURL)
	if err != nil || !strings.HasPrefix(c.PublicURL, "https://") || !isPublicName(u.Host()) {
		return nil
	}
	hosts = append(hosts, u.Host())
	for _, host := range c.Hosts {
		if isPublicName(host) && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

func isPublicName(host string) bool {
	_, err := netip.ParseAddr(host)
	return err != nil && strings.Contains(host, ".") && !strings.HasSuffix(host, ".localhost")
}

func parseDirectory(text string) (string, error) {
	if err := checkPage(text); err != nil || !strings.HasPrefix(text, "https://") {
		return text, errors.New("must be the https URL of the authority's directory, as in " +
			"https://acme-v02.api.letsencrypt.org/directory")
	}
	return text, nil
}

// parseBase64URL returns a key without the padding that some authorities add.
func parseBase64URL(text string) (string, error) {
	text = strings.TrimRight(text, "=")
	if _, err := base64.RawURLEncoding.DecodeString(text); err != nil {
		return text, errors.New("must be the key in base64url, as the authority shows it")
	}
	return text, nil
}
