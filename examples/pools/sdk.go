//go:build sdk

package main

import (
	"context"
	"errors"

	"github.com/gputrain/gputrain/providers/all"
)

var (
	newProvider   = all.New
	newAccounts   = all.Accounts
	providerNames = all.Names
)

var errNeedsSDK = errors.New("this program has the vendors' clients")

func needsSDK(string) bool { return false }

func (a *app) runWithSDKs(context.Context, []string) error { return errNeedsSDK }
