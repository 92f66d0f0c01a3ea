package main

import (
	"fmt"
	"slices"
	"testing"
)

// wantLoggedValues looks for the values before and after changes of settings, roles, domains and templates.
func wantLoggedValues(t *testing.T, node *server) {
	t.Helper()
	host, guest := node.tenant(t, "valued"), node.tenant(t, "guest")
	host.admit(t, guest, "VIEWER")
	made := host.ask(t, `mutation ($w: ID!, $u: ID!) {
			updateWorkspace(input: {id: $w, name: "New", defaultRedirectStatus: 307,
				endedUrl: "https://example.com/ended"}) { errors { code } }
			updateMemberRole(input: {workspaceId: $w, userId: $u, role: EDITOR}) { errors { code } }
			addDomain(input: {workspaceId: $w, host: "values.example.net"}) { domain { id } }
			createUtmTemplate(input: {workspaceId: $w, name: "Mail", utm: {source: "mail"}}) { utmTemplate { id } } }`,
		map[string]any{"w": host.workspaceID, "u": guest.id})
	host.ask(t, `mutation ($d: ID!, $t: ID!) {
			updateDomain(input: {id: $d, indexable: true}) { errors { code } }
			updateUtmTemplate(input: {id: $t, name: "Post"}) { errors { code } }
			deleteUtmTemplate(input: {id: $t}) { errors { code } } }`,
		map[string]any{"d": made.at("addDomain.domain.id"), "t": made.at("createUtmTemplate.utmTemplate.id")})
	var got struct {
		Workspace struct {
			AuditLog struct {
				Nodes []struct {
					Type    string
					Changes []struct{ Field, Before, After string }
				}
			}
		}
	}
	host.must(t, &got, `query ($w: ID!) { workspace(by: {id: $w}) { auditLog(first: 100) { nodes { type changes {
			field before after } } } } }`, map[string]any{"w": host.workspaceID})
	var changes []string
	for _, e := range slices.Backward(got.Workspace.AuditLog.Nodes) {
		for _, c := range e.Changes {
			changes = append(changes, fmt.Sprintf("%s %s %s %s", e.Type, c.Field, c.Before, c.After))
		}
	}
	want := []string{
		`WORKSPACE_UPDATED name "valued" "New"`, `WORKSPACE_UPDATED defaultRedirectStatus 302 307`,
		`WORKSPACE_UPDATED endedUrl null "https://example.com/ended"`, `MEMBER_ROLE_UPDATED role "VIEWER" "EDITOR"`,
		`UTM_TEMPLATE_CREATED name null "Mail"`, `UTM_TEMPLATE_CREATED utm null {"source":"mail"}`,
		`DOMAIN_UPDATED indexable false true`, `UTM_TEMPLATE_UPDATED name "Mail" "Post"`,
		`UTM_TEMPLATE_DELETED name "Post" null`, `UTM_TEMPLATE_DELETED utm {"source":"mail"} null`,
	}
	same(t, "changes in the audit log", changes, want)
}
