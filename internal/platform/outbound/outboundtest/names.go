package outboundtest

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// maxPacket is the largest query over UDP (RFC 1035, section 4.2.1).
const maxPacket = 512

// nameServer answers queries over UDP.
type nameServer struct {
	address string
	names   map[string][][]string

	mu     sync.Mutex
	asked  map[dnsmessage.Question]int
	texts  map[string][]string
	broken bool
}

// Names is a name server on its own, with TXT records that the test sets.
type Names struct {
	// Resolver asks the name server.
	Resolver *net.Resolver

	server *nameServer
}

// OpenNames starts a name server that knows no TXT record yet, and closes it after the test.
func OpenNames(t testing.TB) *Names {
	t.Helper()
	s := serveNames(t, nil)
	return &Names{Resolver: s.resolver(), server: s}
}

// SetTXT replaces the TXT records of the name. With no texts the name exists without records; a
// name that was never set does not exist.
func (n *Names) SetTXT(name string, texts ...string) {
	n.server.mu.Lock()
	defer n.server.mu.Unlock()
	n.server.texts[name] = texts
}

// Break makes TXT queries fail until it is called with false.
func (n *Names) Break(broken bool) {
	n.server.mu.Lock()
	defer n.server.mu.Unlock()
	n.server.broken = broken
}

func serveNames(t testing.TB, names map[string][][]string) *nameServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", net.JoinHostPort(Private, "0"))
	if err != nil {
		t.Fatal(err)
	}
	s := &nameServer{address: conn.LocalAddr().String(), names: names, asked: map[dnsmessage.Question]int{},
		texts: map[string][]string{}}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := s.serve(conn); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		conn.Close()
		serving.Wait()
	})
	return s
}

func (s *nameServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", s.address)
	}}
}

func (s *nameServer) serve(conn net.PacketConn) error {
	packet := make([]byte, maxPacket)
	for {
		n, from, err := conn.ReadFrom(packet)
		if err != nil {
			return err
		}
		reply, err := s.reply(packet[:n])
		if err != nil {
			return err
		}
		if _, err := conn.WriteTo(reply, from); err != nil {
			return err
		}
	}
}

func (s *nameServer) reply(packet []byte) ([]byte, error) {
	var p dnsmessage.Parser
	header, err := p.Start(packet)
	if err != nil {
		return nil, err
	}
	question, err := p.Question()
	if err != nil {
		return nil, err
	}
	reply := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: header.ID, Response: true, Authoritative: true, RecursionAvailable: true},
		Questions: []dnsmessage.Question{question},
	}
	if question.Type == dnsmessage.TypeTXT {
		s.answerTXT(question, &reply)
		return reply.Pack()
	}
	for _, address := range s.answer(question) {
		a := netip.MustParseAddr(address)
		var body dnsmessage.ResourceBody
		switch {
		case a.Is4() && question.Type == dnsmessage.TypeA:
			body = &dnsmessage.AResource{A: a.As4()}
		case a.Is6() && question.Type == dnsmessage.TypeAAAA:
			body = &dnsmessage.AAAAResource{AAAA: a.As16()}
		default:
			continue
		}
		head := dnsmessage.ResourceHeader{Name: question.Name, Type: question.Type, Class: question.Class}
		reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: head, Body: body})
	}
	return reply.Pack()
}

// answer returns the addresses of the name for this query.
func (s *nameServer) answer(q dnsmessage.Question) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	turn := s.asked[q]
	s.asked[q]++
	name := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
	if answers := s.names[name]; len(answers) > 0 {
		return answers[min(turn, len(answers)-1)]
	}
	if strings.HasSuffix(name, PublicName) {
		return []string{Public}
	}
	return []string{Private, Private6}
}

// answerTXT adds the TXT records of the name, or why there are none.
func (s *nameServer) answerTXT(q dnsmessage.Question, reply *dnsmessage.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	texts, ok := s.texts[strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))]
	switch {
	case s.broken:
		reply.RCode = dnsmessage.RCodeServerFailure
	case !ok:
		reply.RCode = dnsmessage.RCodeNameError
	}
	if reply.RCode != dnsmessage.RCodeSuccess {
		return
	}
	for _, text := range texts {
		head := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}
		reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: head,
			Body: &dnsmessage.TXTResource{TXT: []string{text}}})
	}
}

func (s *nameServer) lookups(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[dnsmessage.Question{
		Name: dnsmessage.MustNewName(name + "."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET,
	}]
}
