//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "hog: it finds processes by /proc, which Linux alone has")
	os.Exit(1)
}
