// Package sshkey checks public keys and fingerprints for damage, for packages that only pass them
// on and do not use SSH themselves.
package sshkey

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// Fingerprint returns the SHA256: fingerprint of s, which is either such a fingerprint or a public
// key in authorized_keys form.
func Fingerprint(s string) (string, error) {
	if sum, ok := strings.CutPrefix(s, "SHA256:"); ok {
		if raw, err := base64.RawStdEncoding.Strict().DecodeString(sum); err != nil || len(raw) != sha256.Size {
			return "", fmt.Errorf("%q is not a whole SHA256: fingerprint, which has 43 characters after the colon", s)
		}
		return s, nil
	}
	if strings.HasPrefix(s, "MD5:") {
		return "", errors.New("is an MD5 fingerprint, which is not secure; use the SHA256: one")
	}
	blob, err := public(s)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(blob)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:]), nil
}

// CheckPublic returns an error if s is not exactly one public key in authorized_keys form.
func CheckPublic(s string) error {
	_, err := public(s)
	return err
}

// public returns the key in SSH's wire format (RFC 4253, 6.6): strings, of which the first is the
// key's type.
func public(s string) ([]byte, error) {
	fields := strings.Fields(s)
	if len(fields) < 2 || strings.ContainsAny(s, "\r\n") {
		return nil, errors.New("is neither a SHA256: fingerprint nor a public key in one line")
	}
	blob, err := base64.StdEncoding.DecodeString(fields[1])
	kind, rest, whole := CutString(blob)
	whole = whole && err == nil && kind == fields[0] && len(rest) > 0
	for whole && len(rest) > 0 {
		_, rest, whole = CutString(rest)
	}
	if !whole {
		return nil, fmt.Errorf("%q is not a whole public key", fields[0]+" …")
	}
	return blob, nil
}

// CutString removes a string from the front of b, which is in SSH's wire format (RFC 4251, 5).
func CutString(b []byte) (s string, rest []byte, ok bool) {
	if len(b) < 4 {
		return "", nil, false
	}
	n, b := binary.BigEndian.Uint32(b), b[4:]
	if uint64(n) > uint64(len(b)) {
		return "", nil, false
	}
	return string(b[:n]), b[n:], true
}
