//go:build sdk

package main

import "github.com/gputrain/gputrain/providers/all"

var newProvider = all.New
