package fakecloud

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// read returns a description, such as "testdata/api.json". If it is missing the test fails.
func read(t testing.TB, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.FromSlash(file))
	if err != nil {
		t.Fatalf("the API's description is missing: %v", err)
	}
	return b
}

// described holds the Contract of each file: to read a description takes longer than most tests.
var described sync.Map

// shared returns the Contract that a file describes, for all fakes of this program. It calls read if the file has not
// been read yet.
func shared(t testing.TB, file string, read func() (Contract, error)) Contract {
	t.Helper()
	if c, ok := described.Load(file); ok {
		return c.(Contract)
	}
	c, err := read()
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	described.Store(file, c)
	return c
}
