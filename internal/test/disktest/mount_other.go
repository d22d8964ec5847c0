//go:build !linux

package disktest

import "errors"

func mount(string, int, bool) error { return errors.ErrUnsupported }

func unmount(string) error { return nil }
