package wal_test

import (
	"fmt"
	"log"
	"os"

	"github.com/linkforge/linkforge/internal/click/wal"
)

// A record that was appended is read again, also by another process after a crash, until it is
// released.
func ExampleLog() {
	dir, err := os.MkdirTemp("", "wal")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	j, err := wal.Create(dir, "log_1", 1<<20)
	if err != nil {
		log.Fatal(err)
	}
	for _, record := range []string{"first", "second"} {
		if _, err := j.Append([]byte(record)); err != nil {
			log.Fatal(err)
		}
	}
	chunk, err := j.Read(0, 10)
	if err != nil {
		log.Fatal(err)
	}
	for _, record := range chunk.Records {
		fmt.Println(string(record.Data))
	}
	fmt.Println(j.Release(chunk.Next), j.Close())
	// Output:
	// first
	// second
	// <nil> <nil>
}
