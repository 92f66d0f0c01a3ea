package sso

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strings"
)

// emailClaims are those about the address. They are taken from one response, so that an address is
// not verified by what is said about another one.
var emailClaims = []string{"email", "email_verified", "xms_edov"}

// complete adds the claims that the ID token lacks and that the provider keeps at its user info
// endpoint: the address with its verification, the name, and the groups. It requests them only if
// something is missing that the login needs.
func (p *Provider) complete(ctx context.Context, m *metadata, c *claims, accessToken string) error {
	p.spreadGroups(c.texts)
	lacksEmail, lacksGroups := c.lacksEmail(), p.config.NeedsGroups && isAbsent(c.texts[p.config.GroupsClaim])
	if m.userInfo == "" || !lacksEmail && !lacksGroups {
		return nil
	}
	more, err := p.readUserInfo(ctx, m.userInfo, accessToken)
	if f, ok := errors.AsType[*fault](err); ok && !f.outage && !lacksEmail {
		// Users without groups may have no such claim at all: the login goes on without a change.
		p.log(ctx, slog.LevelWarn, "groups of single sign-on ignored: the provider refuses them", f)
		c.lacksGroups = true
		return nil
	}
	if err != nil {
		return err
	}
	subject := &claims{texts: more}
	if subject.text("sub") != c.Subject { // OpenID Connect Core, section 5.3.2
		return refusal("user_info", "error", "another subject")
	}
	p.spreadGroups(more)
	if lacksEmail && !isAbsent(more["email"]) {
		for _, name := range emailClaims {
			delete(c.texts, name)
			c.add(more, name)
		}
	}
	c.add(more, "name")
	if lacksGroups {
		c.add(more, p.config.GroupsClaim)
	}
	return nil
}

// lacksEmail reports whether the address is missing, or whether the provider says nothing about its
// verification.
func (c *claims) lacksEmail() bool {
	return isAbsent(c.texts["email"]) || isAbsent(c.texts["email_verified"]) && isAbsent(c.texts["xms_edov"])
}

func isAbsent(value json.RawMessage) bool { return value == nil || string(value) == "null" }

// add adds a claim that is missing.
func (c *claims) add(more map[string]json.RawMessage, name string) {
	if isAbsent(c.texts[name]) && !isAbsent(more[name]) {
		c.texts[name] = more[name]
	}
}

// spreadGroups gives a claim of groups that is within objects, such as realm_access.roles, its whole
// name.
func (p *Provider) spreadGroups(texts map[string]json.RawMessage) {
	if value := within(texts, p.config.GroupsClaim); value != nil {
		texts[p.config.GroupsClaim] = value
	}
}

// within returns the value of a path whose parts are separated by dots, or nil. The names of claims
// may contain dots, too: the one that is equal to the path goes first.
func within(object map[string]json.RawMessage, path string) json.RawMessage {
	if value := object[path]; value != nil {
		return value
	}
	for i := range path {
		var inner map[string]json.RawMessage
		if path[i] != '.' || json.Unmarshal(object[path[:i]], &inner) != nil {
			continue
		}
		if value := within(inner, path[i+1:]); value != nil {
			return value
		}
	}
	return nil
}

// readUserInfo returns the claims of the user info endpoint, which may be signed.
func (p *Provider) readUserInfo(
	ctx context.Context, endpoint, accessToken string,
) (more map[string]json.RawMessage, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint, nil)
	if err != nil {
		return nil, outage("user_info", "error", abbreviated(err.Error()))
	}
	r.Header.Set("Authorization", "Bearer "+accessToken)
	r.Header.Set("Accept", "application/json, application/jwt")
	response, err := p.client.Do(r)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, outage("user_info", "error", abbreviated(err.Error()))
	}
	defer response.Body.Close()
	switch {
	case isOutage(response.StatusCode):
		return nil, outage("user_info", "status", response.StatusCode)
	case response.StatusCode != http.StatusOK:
		return nil, refusal("user_info", "status", response.StatusCode)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, outage("user_info", "error", abbreviated(err.Error()))
	}
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind == "application/jwt" {
		if body, err = p.verifySignature(ctx, strings.TrimSpace(string(body))); err != nil {
			return nil, err
		}
	}
	if json.Unmarshal(body, &more) != nil || more == nil {
		return nil, refusal("user_info", "error", "no JSON object")
	}
	return more, nil
}
