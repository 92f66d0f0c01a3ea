package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/linkforge/linkforge/internal/cli"
	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
	"github.com/linkforge/linkforge/internal/stores"
)

// demoDeadline bounds the whole demo.
const demoDeadline = 2 * time.Minute

// demoCommand is `linkforge demo`.
type demoCommand struct {
	URLs []string `arg:"" optional:"" name:"url" help:"The URLs to shorten; two examples without any."`
}

// Run starts an embedded instance in a temporary folder and does the main job on it over HTTP: it ends well only
// if every step held.
func (c demoCommand) Run(ctx context.Context, std cli.IO) (err error) {
	ctx, cancel := context.WithTimeout(ctx, demoDeadline)
	defer cancel()
	if len(c.URLs) == 0 {
		c.URLs = []string{"https://go.dev/doc/effective_go", "HTTP://Example.COM:80/a//b/?z=1&a=2#x"}
	}
	folder, err := os.MkdirTemp("", "linkforge-demo-")
	if err != nil {
		return fmt.Errorf("creating a temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	settings, err := config.Parse(map[string]string{
		"LINKFORGE_DATA_DIR": folder, "LINKFORGE_PUBLIC_URL": "http://" + listener.Addr().String(),
	}, stores.Checks)
	if err != nil {
		return err
	}
	a, err := newApp(ctx, settings, newLogger(std.Err, false, slog.LevelWarn), nil)
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- a.serve(serving, listener) }()
	d := &demo{Client: cli.Client{Server: settings.PublicURL}, out: std.Out}
	err = d.steps(ctx, c.URLs)
	stop()
	return errors.Join(err, <-served, a.close())
}

// demo creates and follows links as a front end would.
type demo struct {
	cli.Client
	out io.Writer
}

func (d *demo) steps(ctx context.Context, urls []string) error {
	d.say("A temporary embedded instance runs at %s.\n", d.Server)
	workspaceID, err := d.setUp(ctx)
	if err != nil {
		return err
	}
	for _, u := range urls {
		if err := d.shorten(ctx, workspaceID, u); err != nil {
			return fmt.Errorf("%s: %w", u, err)
		}
	}
	d.say("Every step succeeded.")
	return nil
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.out, format+"\n", args...) }

// setUp creates an account and a workspace.
func (d *demo) setUp(ctx context.Context) (workspaceID string, err error) {
	var account struct {
		Register struct {
			Token  string
			User   struct{ Name, Email string }
			Errors cli.UserErrors
		}
	}
	err = d.Do(ctx, &account, `mutation ($password: String!) {
		register(input: {email: "ada@example.com", password: $password, name: "Ada"}) {
			token user { name email } errors { code message }
		}
	}`, map[string]any{"password": rand.Text()})
	if err := errors.Join(err, account.Register.Errors.First()); err != nil {
		return "", fmt.Errorf("registering: %w", err)
	}
	d.Key = account.Register.Token
	d.say("Registered %s <%s>.", account.Register.User.Name, account.Register.User.Email)

	var made struct {
		CreateWorkspace struct {
			Workspace struct{ ID, Name, Slug string }
			Errors    cli.UserErrors
		}
	}
	err = d.Do(ctx, &made, `mutation {
		createWorkspace(input: {name: "Analytical Engines", slug: "engines"}) {
			workspace { id name slug } errors { code message }
		}
	}`, nil)
	if err := errors.Join(err, made.CreateWorkspace.Errors.First()); err != nil {
		return "", fmt.Errorf("creating a workspace: %w", err)
	}
	w := made.CreateWorkspace.Workspace
	d.say("Created the workspace %q, %s.\n", w.Name, w.ID)
	return w.ID, nil
}

// demoLink has the fields of a link that the demo reads.
type demoLink struct {
	ID, Code, ShortURL, CanonicalURL string
}

// shorten creates a link twice, follows it, and reads its stats.
func (d *demo) shorten(ctx context.Context, workspaceID, u string) error {
	d.say("%s", u)
	first, created, err := d.create(ctx, workspaceID, u)
	if err != nil {
		return err
	}
	if !created {
		d.say("  is the same page as one before:")
	}
	d.say("  canonical   %s", first.CanonicalURL)
	d.say("  short URL   %s", first.ShortURL)
	before, err := d.clicks(ctx, first.ID)
	if err != nil {
		return err
	}
	second, again, err := d.create(ctx, workspaceID, u)
	if err != nil {
		return err
	}
	if again || second != first {
		return fmt.Errorf("creating it again gave %+v (created: %t), not the link that was there", second, again)
	}
	d.say("  created     %t, then %t: the same link both times", created, again)
	location, err := d.follow(ctx, first.ShortURL)
	if err != nil {
		return err
	}
	if want := urlnorm.Location(u); created && location != want {
		return fmt.Errorf("the redirect leads to %s, not to %s", location, want)
	}
	d.say("  redirect    302 to %s", location)
	after, err := d.awaitClicks(ctx, first.ID, before+1)
	if err != nil {
		return err
	}
	d.say("  stats       %d click(s), %d today, ready in %.3f ms\n", after.Total, after.Today, after.AverageMs)
	return nil
}

func (d *demo) create(ctx context.Context, workspaceID, u string) (l demoLink, created bool, err error) {
	var answer struct {
		CreateLink struct {
			Link    demoLink
			Created bool
			Errors  cli.UserErrors
		}
	}
	err = d.Do(ctx, &answer, `mutation ($workspaceId: ID!, $url: String!) {
		createLink(input: {workspaceId: $workspaceId, url: $url}) {
			link { id code shortUrl canonicalUrl } created errors { code message }
		}
	}`, map[string]any{"workspaceId": workspaceID, "url": u})
	if err := errors.Join(err, answer.CreateLink.Errors.First()); err != nil {
		return demoLink{}, false, fmt.Errorf("creating a link: %w", err)
	}
	return answer.CreateLink.Link, answer.CreateLink.Created, nil
}

// follow requests the redirect. It does not fetch the destination.
func (d *demo) follow(ctx context.Context, shortURL string) (location string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, shortURL, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return "", fmt.Errorf("following the short URL: %w", err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusFound {
		return "", fmt.Errorf("the short URL answers %s", response.Status)
	}
	return response.Header.Get("Location"), nil
}

// demoClicks has the fields of a link's stats that the demo reads.
type demoClicks struct {
	Total, Today int64
	AverageMs    float64
}

// awaitClicks reads the stats until the clicks have been written, which takes a moment.
func (d *demo) awaitClicks(ctx context.Context, linkID string, want int64) (demoClicks, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		got, err := d.readClicks(ctx, linkID)
		if err != nil || got.Total == want && got.Today == want {
			return got, err
		}
		if got.Total > want {
			return got, fmt.Errorf("%d clicks were counted, not %d", got.Total, want)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return got, fmt.Errorf("the click was not counted: %w", ctx.Err())
		}
	}
}

func (d *demo) clicks(ctx context.Context, linkID string) (int64, error) {
	got, err := d.readClicks(ctx, linkID)
	return got.Total, err
}

func (d *demo) readClicks(ctx context.Context, linkID string) (demoClicks, error) {
	var answer struct {
		Link struct {
			ClickCount        int64
			AverageRedirectMs *float64
			Stats             struct{ Series []struct{ Clicks int64 } }
		}
	}
	err := d.Do(ctx, &answer, `query ($id: ID!) {
		link(by: {id: $id}) { clickCount averageRedirectMs stats { series(interval: DAY) { clicks } } }
	}`, map[string]any{"id": linkID})
	if err != nil {
		return demoClicks{}, fmt.Errorf("reading the stats: %w", err)
	}
	got := demoClicks{Total: answer.Link.ClickCount}
	if answer.Link.AverageRedirectMs != nil {
		got.AverageMs = *answer.Link.AverageRedirectMs
	}
	if days := answer.Link.Stats.Series; len(days) > 0 {
		got.Today = days[len(days)-1].Clicks
	}
	return got, nil
}
