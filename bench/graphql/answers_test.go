package main

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// TestBareAnswersLikeLinkforge asks both what is measured: the one is no baseline of the other unless they answer the same.
func TestBareAnswersLikeLinkforge(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it builds the server")
	}
	folder := t.TempDir()
	binary, err := rig.Build(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	address, err := rig.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	p, err := rig.Start(t.Context(), folder, "server", address, settings(address, folder+"/data"), binary, "serve")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	ours := &client{address: address}
	of, err := ours.settle(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(newBare("http://"+address, nil))
	t.Cleanup(server.Close)
	bare := &client{address: strings.TrimPrefix(server.URL, "http://")}
	for number, o := range operations() {
		for _, body := range o.bodies(of.of(o)) {
			body = withNumber(body, number)
			one, err := bare.ask(t.Context(), body)
			if err != nil {
				t.Fatal(err)
			}
			other, err := ours.ask(t.Context(), body)
			if err != nil {
				t.Fatal(err)
			}
			if err := sameShape(one, other); err != nil {
				t.Errorf("%s: %v", o.name, err)
			}
			for _, answer := range [][]byte{one, other} {
				c := caller{good: []byte(o.good), wrong: map[int]int64{}}
				if c.note(200, answer); c.right != 1 {
					t.Errorf("%s: an answer is taken for wrong: %s", o.name, answer)
				}
			}
		}
	}
}

func TestSameShape(t *testing.T) {
	t.Parallel()
	const answer = `{"data":{"a":[{"b":"one","c":1},{"b":"two","c":null}]}}`
	for name, c := range map[string]struct {
		other string
		same  bool
	}{
		"other values":     {`{"data":{"a":[{"c":2,"b":"six"},{"b":"ten","c":null}]}}`, true},
		"another field":    {`{"data":{"a":[{"b":"one","d":1},{"b":"two","c":null}]}}`, false},
		"another type":     {`{"data":{"a":[{"b":"one","c":""},{"b":"two","c":null}]}}`, false},
		"something null":   {`{"data":{"a":[{"b":null,"c":1},{"b":"two","c":null}]}}`, false},
		"an item less":     {`{"data":{"a":[{"b":"one and more of it","c":1}]}}`, false},
		"much longer":      {`{"data":{"a":[{"b":"one of many","c":1},{"b":"two","c":null}]}}`, false},
		"no answer at all": {`Bad Gateway`, false},
	} {
		if err := sameShape([]byte(answer), []byte(c.other)); (err == nil) != c.same {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
