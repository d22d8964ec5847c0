//go:build !sdk

package main

import "github.com/gputrain/gputrain/providers/light"

var newProvider = light.New
