// Package visitortest writes small country databases for tests.
package visitortest

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
)

// Record is the file's entry of a network.
type Record struct {
	// Country is the country of the network, Registered that of its owner. Empty ones are omitted.
	Country, Registered string
}

// WriteCountries writes a file that maps networks to countries: {"81.2.69.0/24": "GB",
// "2001:218::/32": "JP"}. The narrowest network of an address counts. An existing file is replaced
// atomically.
func WriteCountries(path string, countries map[string]string) error {
	return WriteRecords(path, recordsOf(countries))
}

// WellKnown are networks with their countries that a database of countries of the whole world has.
var WellKnown = map[string]string{
	"128.100.0.0/16": "CA", "128.232.0.0/16": "GB", "129.132.0.0/16": "CH", "129.187.0.0/16": "DE",
	"130.237.0.0/16": "SE", "132.248.0.0/16": "MX", "133.11.0.0/16": "JP", "137.158.0.0/16": "ZA",
	"143.107.0.0/16": "BR", "171.64.0.0/14": "US",
}

// Encode returns the content of a file of a type that maps networks to countries, as WriteCountries
// writes it.
func Encode(databaseType string, countries map[string]string) ([]byte, error) {
	return encode(databaseType, recordsOf(countries))
}

func recordsOf(countries map[string]string) map[string]Record {
	records := make(map[string]Record, len(countries))
	for network, code := range countries {
		records[network] = Record{Country: code}
	}
	return records
}

// WriteRecords is WriteCountries of more than countries.
func WriteRecords(path string, records map[string]Record) error {
	content, err := encode("Test-Country", records)
	if err != nil {
		return fmt.Errorf("file of countries: %w", err)
	}
	next := path + ".next"
	if err := os.WriteFile(next, content, 0o600); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// tree is a search tree by the bits of addresses: nodes[0] is its root. A node's branch is another
// node, data (as a negative number, the offset's complement), or empty.
type tree struct{ nodes [][2]int }

// encode follows https://maxmind.github.io/MaxMind-DB/, with records of 32 bits, IPv6, and IPv4 at
// ::/96.
func encode(databaseType string, records map[string]Record) ([]byte, error) {
	t := tree{nodes: make([][2]int, 1)}
	var data bytes.Buffer
	networks := make(map[netip.Prefix]Record, len(records))
	for text, r := range records {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		networks[network.Masked()] = r
	}
	wideFirst := slices.SortedFunc(maps.Keys(networks), func(a, b netip.Prefix) int {
		return cmp.Or(cmp.Compare(depth(a), depth(b)), a.Addr().Compare(b.Addr()))
	})
	for _, network := range wideFirst {
		t.add(network, ^data.Len())
		writeRecord(&data, networks[network])
	}
	var file bytes.Buffer
	for _, node := range t.nodes {
		for _, to := range node {
			file.Write(binary.BigEndian.AppendUint32(nil, uint32(t.number(to))))
		}
	}
	file.Write(make([]byte, 16))
	file.Write(data.Bytes())
	file.WriteString("\xAB\xCD\xEFMaxMind.com")
	writeMetadata(&file, databaseType, len(t.nodes))
	return file.Bytes(), nil
}

// depth is how many bits of the tree lead to a network.
func depth(network netip.Prefix) int {
	if network.Addr().Is4() {
		return 96 + network.Bits()
	}
	return network.Bits()
}

// bitsOf are the 128 bits of an address, IPv4 at ::/96 and not, as netip has it, at ::ffff:0:0/96.
func bitsOf(address netip.Addr) [16]byte {
	if !address.Is4() {
		return address.As16()
	}
	four := address.As4()
	var sixteen [16]byte
	copy(sixteen[12:], four[:])
	return sixteen
}

// add leads a network to data. Wider networks must have been added before: they are split.
func (t *tree) add(network netip.Prefix, data int) {
	bits, at := bitsOf(network.Addr()), 0
	for i := range depth(network) {
		side := bits[i/8] >> (7 - i%8) & 1
		if i == depth(network)-1 {
			t.nodes[at][side] = data
			return
		}
		if to := t.nodes[at][side]; to <= 0 {
			t.nodes = append(t.nodes, [2]int{to, to})
			t.nodes[at][side] = len(t.nodes) - 1
		}
		at = t.nodes[at][side]
	}
	t.nodes[0] = [2]int{data, data} // of everything
}

// number encodes the target of a branch: the number of nodes stands for no data, and offsets of
// data begin 16 after it.
func (t *tree) number(to int) int {
	switch {
	case to < 0:
		return len(t.nodes) + 16 + ^to
	case to == 0:
		return len(t.nodes)
	}
	return to
}

// The types of data, in the three bits above the size; types from 8 on are in a byte of their own.
const (
	text     = 2 << 5
	number16 = 5 << 5
	number32 = 6 << 5
	object   = 7 << 5
	extended = 0
	number64 = 9 - 7
	list     = 11 - 7
)

func writeRecord(b *bytes.Buffer, r Record) {
	fields := [][2]string{{"country", r.Country}, {"registered_country", r.Registered}}
	fields = slices.DeleteFunc(fields, func(f [2]string) bool { return f[1] == "" })
	b.WriteByte(object | byte(len(fields)))
	for _, f := range fields {
		writeText(b, f[0])
		b.WriteByte(object | 1)
		writeText(b, "iso_code")
		writeText(b, f[1])
	}
}

// writeText writes at most 28 bytes: longer texts have their size elsewhere.
func writeText(b *bytes.Buffer, s string) {
	b.WriteByte(text | byte(len(s)))
	b.WriteString(s)
}

func writeMetadata(b *bytes.Buffer, databaseType string, nodes int) {
	b.WriteByte(object | 9)
	for _, field := range []struct {
		name  string
		value []byte
	}{
		{"binary_format_major_version", []byte{number16 | 1, 2}},
		{"binary_format_minor_version", []byte{number16 | 0}},
		{"build_epoch", []byte{extended | 4, number64, 0x65, 0x92, 0x00, 0x80}}, // the first instant of 2024
		{"database_type", append([]byte{text | byte(len(databaseType))}, databaseType...)},
		{"description", []byte{object | 0}},
		{"ip_version", []byte{number16 | 1, 6}},
		{"languages", []byte{extended | 0, list}},
		{"node_count", binary.BigEndian.AppendUint32([]byte{number32 | 4}, uint32(nodes))},
		{"record_size", []byte{number16 | 1, 32}},
	} {
		writeText(b, field.name)
		b.Write(field.value)
	}
}
