//go:build sdk

package main

import (
	"context"
	"errors"
	"io"

	"github.com/gputrain/gputrain/providers/all"
)

var newProvider = all.New

func needsSDK(string) bool { return false }

func runWithSDKs(context.Context, io.Writer, []string) error {
	return errors.New("this program has the vendors' clients")
}
