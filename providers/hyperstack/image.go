package hyperstack

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/providers/driver"
)

// imageName matches the vendor's names of images: "Ubuntu Server 24.04 LTS R570 CUDA 12.8 with
// Docker".
var imageName = regexp.MustCompile(`^Ubuntu Server (\d+)\.(\d+) LTS(?: R(\d+))?(?: CUDA (\d+)\.(\d+))?( with Docker)?$`)

// choose returns the name of a node's image: Config's, or the newest Ubuntu with CUDA, or the
// newest Ubuntu. Images have no date; their names show which is newer.
func choose(images []image, wanted, flavor string) (string, error) {
	if wanted != "" {
		if !slices.ContainsFunc(images, func(i image) bool { return i.Name == wanted }) {
			return "", &driver.Error{Kind: driver.ErrUnsupported, Err: errNoImage, Hint: "the region has no image " + strconv.Quote(wanted)}
		}
		return wanted, nil
	}
	var best image
	var bestRank []int
	for _, i := range images {
		if r := rank(i); r != nil && i.fits(flavor) && slices.Compare(r, bestRank) > 0 {
			best, bestRank = i, r
		}
	}
	if bestRank == nil {
		return "", &driver.Error{Kind: driver.ErrUnsupported, Err: errNoImage, Hint: "set Config.Image: the region has no Ubuntu for " + flavor}
	}
	return best.Name, nil
}

// rank orders images: with CUDA or not, then by Ubuntu, CUDA, driver, Docker and ID. It returns
// nil for an image that is not Ubuntu.
func rank(i image) []int {
	m := imageName.FindStringSubmatch(i.Name)
	if m == nil {
		return nil
	}
	n := func(s string) int { v, _ := strconv.Atoi(s); return v }
	return []int{min(1, len(m[4])), n(m[1]), n(m[2]), n(m[4]), n(m[5]), n(m[3]), min(1, len(m[6])), cmp.Or(i.ID, 1)}
}

// fits reports whether an image's restrictions allow a flavour: there are none, or they name
// it. Their form is not documented.
func (i image) fits(flavor string) bool {
	switch text := string(i.Restrictions); text {
	case "", "null", "{}", "[]":
		return true
	default:
		return strings.Contains(text, strconv.Quote(flavor))
	}
}
