package gcp

import (
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
)

// The operations on images, with the contract's names.
const (
	opMakeImage  = "compute.images.insert"
	opImage      = "compute.images.get"
	opImages     = "compute.images.list"
	opLabelImage = "compute.images.setLabels"
	opDelImage   = "compute.images.delete"
)

// A fakeImage is an image of the project, with the disk that it is made of.
type fakeImage struct {
	row     row
	disk    string // of machines that are launched from it
	pending int    // answers that report it as pending
}

func (f *fake) makeImage(c *fakecloud.Call) fakecloud.Answer {
	if a, done := f.replayed(c); done {
		return a
	}
	in := maps.Clone(c.Input.(row))
	name := text(in["name"])
	m := regexp.MustCompile(`^projects/([^/]+)/zones/([^/]+)/disks/([^/]+)$`).FindStringSubmatch(text(in["sourceDisk"]))
	if m == nil || m[1] != f.project {
		return notFound("%v", in["sourceDisk"])
	}
	v, ok := f.instances.Get(nil, instanceID(m[2], m[3]))
	if !ok {
		return notFound("%v", in["sourceDisk"])
	}
	if c.Query.Get("forceCreate") != "true" {
		return fakecloud.GoogleError(400, "invalid", "The disk resource is already being used by a running instance")
	}
	labels, _ := in["labels"].(row)
	for label, value := range labels {
		if !regexp.MustCompile(labelFormat).MatchString(text(value)) {
			return fakecloud.GoogleError(400, "invalid", "label "+label)
		}
	}
	if _, there := f.images.Get(nil, name); there {
		return fakecloud.GoogleError(409, "alreadyExists", "The resource 'projects/"+f.project+"/global/images/"+name+"' already exists")
	}
	if f.imageQuota {
		return f.begin(c, "insert", "", []row{{"code": "QUOTA_EXCEEDED", "message": "Quota 'IMAGES' exceeded."}}, 403)
	}
	in["kind"], in["creationTimestamp"], in["status"], in["labelFingerprint"] = "compute#image", time.Now().Format(time.RFC3339), "PENDING", "MDEyMw=="
	in["architecture"], in["diskSizeGb"], in["selfLink"] = "X86_64", "100", "https://www.googleapis.com/compute/v1/projects/"+f.project+"/global/images/"+name
	i := &fakeImage{row: in, pending: f.imageDelay}
	if v.machine != nil {
		disk, err := v.machine.CopyDisk()
		if err != nil {
			f.t.Error(err)
		}
		i.disk = disk
	}
	f.images.Put(c, name, i)
	return f.begin(c, "insert", "", nil, 0)
}

// describedImage returns an image as the API describes it. It becomes ready, or fails, after some answers.
func (f *fake) describedImage(i *fakeImage) row {
	switch {
	case i.row["status"] != "PENDING":
	case i.pending > 0:
		i.pending--
	case f.imageFails:
		i.row["status"] = "FAILED"
	default:
		i.row["status"], i.row["archiveSizeBytes"] = "READY", strconv.Itoa(4<<30)
	}
	return maps.Clone(i.row)
}

func (f *fake) image(c *fakecloud.Call) fakecloud.Answer {
	i, ok := f.images.Get(c, c.Vars["image"])
	if !ok {
		return notFound("projects/%s/global/images/%s", f.project, c.Vars["image"])
	}
	return fakecloud.Reply(200, f.describedImage(i))
}

func (f *fake) listImages(c *fakecloud.Call) fakecloud.Answer {
	all := []row{}
	for _, i := range f.images.All(c) {
		if labelled(c, i.row["labels"]) {
			all = append(all, f.describedImage(i))
		}
	}
	return fakecloud.Reply(200, paged(f, c, "compute#imageList", all))
}

func (f *fake) labelImage(c *fakecloud.Call) fakecloud.Answer {
	var in struct {
		Labels           map[string]string
		LabelFingerprint string
	}
	c.Decode(&in)
	i, ok := f.images.Get(nil, c.Vars["resource"])
	if !ok {
		return notFound("images/%s", c.Vars["resource"])
	}
	if in.LabelFingerprint != i.row["labelFingerprint"] {
		return fakecloud.GoogleError(412, "conditionNotMet", "Labels fingerprint either invalid or resource labels have changed")
	}
	labels := row{}
	for k, l := range in.Labels {
		labels[k] = l
	}
	i.row["labels"] = labels
	return f.begin(c, "setLabels", "", nil, 0)
}

func (f *fake) deleteImage(c *fakecloud.Call) fakecloud.Answer {
	if a, done := f.replayed(c); done {
		return a
	}
	if i, ok := f.images.Get(nil, c.Vars["image"]); ok && i.row["description"] == nil {
		f.t.Errorf("another program's image %s is deleted", c.Vars["image"])
	}
	if !f.images.Delete(c, c.Vars["image"]) {
		return notFound("projects/%s/global/images/%s", f.project, c.Vars["image"])
	}
	return f.begin(c, "delete", "", nil, 0)
}

// ownImage returns an image of the project that a disk starts from.
func (f *fake) ownImage(link string) (i *fakeImage, ok bool) {
	name, own := strings.CutPrefix(link, fmt.Sprintf("projects/%s/global/images/", f.project))
	if !own {
		return nil, false
	}
	i, ok = f.images.Get(nil, name)
	return i, ok && f.describedImage(i)["status"] == "READY"
}

// diskOf returns the disk of an image that an insert's body starts from, or "".
func (f *fake) diskOf(asked row) string {
	disks, _ := asked["disks"].([]any)
	if len(disks) == 0 {
		return ""
	}
	params, _ := disks[0].(row)["initializeParams"].(row)
	if i, ok := f.ownImage(text(params["sourceImage"])); ok {
		return i.disk
	}
	return ""
}
