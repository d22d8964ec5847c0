package docker

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// A Reference is the name of an image, as the docker command takes it: "debian:12", "ghcr.io/team/train@sha256:...".
type Reference struct {
	Name   string // without tag and digest
	Tag    string // "" if there is none
	Digest string // "sha256:..."; "" if there is none
}

var (
	// https://pkg.go.dev/github.com/distribution/reference has the grammar.
	domainForm = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*|\[[0-9a-fA-F:]+\])(:[0-9]{1,5})?$`)
	pathForm   = regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$`)
	tagForm    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
	digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// maxName bounds a name with its registry.
const maxName = 255

// ParseReference reads the name of an image.
func ParseReference(text string) (Reference, error) {
	bad := func(why string) (Reference, error) {
		return Reference{}, fmt.Errorf("%.300q is not the name of an image: %s; it must be like debian:12 or ghcr.io/team/train:2.1", text, why)
	}
	var r Reference
	var digested bool
	r.Name, r.Digest, digested = strings.Cut(text, "@")
	if digested && !digestForm.MatchString(r.Digest) {
		return bad("its digest is not sha256: and 64 hexadecimal digits")
	}
	if at := strings.LastIndexByte(r.Name, ':'); at > strings.LastIndexByte(r.Name, '/') {
		r.Name, r.Tag = r.Name[:at], r.Name[at+1:]
		if !tagForm.MatchString(r.Tag) {
			return bad("its tag has other characters than letters, digits, dots, dashes and underscores")
		}
	}
	domain, path := r.split()
	switch {
	case r.Name == "":
		return bad("it is empty")
	case len(r.Name) > maxName:
		return bad("it is too long")
	case domain != "" && !domainForm.MatchString(domain):
		return bad("its registry is no host and port")
	case !pathForm.MatchString(path):
		return bad("a name has lower-case letters, digits, and single dots, dashes, underscores and slashes between them")
	}
	return r, nil
}

// split separates the registry from the name: "" for Docker Hub.
func (r Reference) split() (domain, path string) {
	first, rest, found := strings.Cut(r.Name, "/")
	if found && (strings.ContainsAny(first, ".:") || first == "localhost" || strings.ToLower(first) != first) {
		return first, rest
	}
	return "", r.Name
}

// Registry returns the host of the image's registry, with its port: "docker.io" for Docker Hub.
func (r Reference) Registry() string {
	domain, _ := r.split()
	if domain == "" || domain == "index.docker.io" {
		return "docker.io"
	}
	return domain
}

// canonical returns the name in its longest form, which two names of the same repository share.
func (r Reference) canonical() string {
	domain, path := r.split()
	if r.Registry() != "docker.io" {
		return domain + "/" + path
	}
	if !strings.Contains(path, "/") {
		path = "library/" + path
	}
	return "docker.io/" + path
}

// String returns the reference, with the tag latest if it has neither tag nor digest.
func (r Reference) String() string {
	switch {
	case r.Digest != "":
		return r.Name + "@" + r.Digest
	case r.Tag != "":
		return r.Name + ":" + r.Tag
	}
	return r.Name + ":latest"
}

// An Image is an image as an engine has it.
type Image struct {
	// ID is the engine's, "sha256:...", and Digest the registry's, or "" if the image was not pulled under its name.
	ID, Digest string
}

// String returns the ID, and the digest after an at sign: what ParseImage reads.
func (i Image) String() string {
	if i.Digest == "" {
		return i.ID
	}
	return i.ID + "@" + i.Digest
}

// ParseImage reads what String has written.
func ParseImage(text string) (Image, error) {
	id, digest, digested := strings.Cut(text, "@")
	if !digestForm.MatchString(id) || digested && !digestForm.MatchString(digest) {
		return Image{}, errors.New("it is not the ID of an image")
	}
	return Image{id, digest}, nil
}

// is reports whether two engines have the same image. One of several platforms has a digest for all of them.
func (i Image) is(other Image) bool {
	return i.ID == other.ID || i.Digest != "" && i.Digest == other.Digest
}
