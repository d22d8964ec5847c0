// Package uv has one release of uv, the program by Astral that installs Python and its packages: where each platform's
// build is published, and the checksum that pins it. It fetches a build for a node that cannot do so itself.
package uv

import "os"

const (
	// pinnedVersion and pinned are one release. The checksums are those that astral-sh/setup-uv keeps in
	// src/download/checksum/known-checksums.json: to move to a newer release change both together.
	pinnedVersion = "0.12.5"

	github = "https://github.com"
	// mirror is the variable by which uv's own installer takes its releases from elsewhere than GitHub.
	mirror = "UV_INSTALLER_GITHUB_BASE_URL"
)

// pinned has the builds by the platform in Go's words. Those of Linux are static programs, wherever such a build is
// published: they run on glibc and on musl, and find out which of the two a managed Python has to be for.
var pinned = map[string]build{
	"linux/amd64":   {"x86_64-unknown-linux-musl", "a4742988791c9aeae68c78150d6cba762062ad2a47e53738c2779d2b596bfcdb"},
	"linux/arm64":   {"aarch64-unknown-linux-musl", "8767a0e77f2cd45436401b1b42bf7e9ed5a4a91a74a5305d6fe93249d0f6dbc5"},
	"linux/arm":     {"armv7-unknown-linux-musleabihf", "62f838f29cad6fda061b1566168555978c544a4107697cd1967398b7f8efea84"},
	"linux/386":     {"i686-unknown-linux-musl", "b920f32f0910be363f770485117e08494eec0b09abb4f3f9f1f9b9f53a29394c"},
	"linux/riscv64": {"riscv64gc-unknown-linux-musl", "c7fc653d16f0214eaaf2b3af537ec917af4861e3d00c0f10e0784fe4cbc1dcd6"},
	"linux/ppc64le": {"powerpc64le-unknown-linux-gnu", "af3f868fc8af2c3a688b1a202cbed507ec5bb32522876141f1b7f4200ed0395f"},
	"linux/s390x":   {"s390x-unknown-linux-gnu", "858d51fd178fe99c69923cef568fbac3f297f3767c0e0d985aa172bc1f3e2274"},
	"darwin/amd64":  {"x86_64-apple-darwin", "b3b2137477cf96c9686ebfb71524614cec780c673fd73e59bce099aef02e70e8"},
	"darwin/arm64":  {"aarch64-apple-darwin", "5bb0e5fe008a773c3dbcb97ff79cd89e1241464fe9d2f986d52ad8f1b037bd62"},
}

type build struct{ target, sum string }

// A Release is one version of uv. Its fields are for tests, which serve another program in its place.
type Release struct {
	// Version is the version without a v.
	Version string
	// Base is the address that takes GitHub's place.
	Base string
	// Dir is the folder of this computer that keeps fetched builds. Empty means gputrain/uv in the user's cache folder.
	Dir string
	// Sums are the SHA-256 of the builds' archives, by target.
	Sums map[string]string
}

// Pinned returns the release that nodes get.
func Pinned() *Release {
	r := &Release{Version: pinnedVersion, Base: github, Sums: map[string]string{}}
	for _, b := range pinned {
		r.Sums[b.target] = b.sum
	}
	return r
}

// A Build is the release for one platform: an archive that has the program as Target's folder, and uv in it.
type Build struct {
	// Target names the platform as uv does: "uv-x86_64-unknown-linux-musl". It is the name of the archive, without
	// its ending, and of the folder in it.
	Target string
	// SHA256 is the archive's checksum, in hexadecimal.
	SHA256 string
	// Path is the archive's path below the release's base.
	Path string
}

// Build returns the release's build for a platform in Go's words, and whether there is one.
func (r *Release) Build(goos, goarch string) (Build, bool) {
	b, ok := pinned[goos+"/"+goarch]
	sum := r.Sums[b.target]
	if !ok || sum == "" {
		return Build{}, false
	}
	target := "uv-" + b.target
	return Build{Target: target, SHA256: sum, Path: "/astral-sh/uv/releases/download/" + r.Version + "/" + target + ".tar.gz"}, true
}

// url returns the archive's address for this computer.
func (r *Release) url(b Build) string {
	if base := os.Getenv(mirror); base != "" {
		return base + b.Path
	}
	return r.Base + b.Path
}
