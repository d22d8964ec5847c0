package container

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
)

// A report is an engine's report of a container, in one form for all engines.
type report struct {
	id, name  string
	status    string // in the engine's words: "running"
	exitCode  int
	oomKilled bool
	message   string
	labels    map[string]string
	addr      string // on the pool's network
	published string // the address of port 22 on the engine's machine: host:port
}

// node returns the name of the node.
func (r report) node() string { return cmp.Or(r.labels[labelName], r.name) }

// gpus returns the GPUs of the node's own.
func (r report) gpus() []string {
	return strings.FieldsFunc(r.labels[labelGPUs], func(c rune) bool { return c == ',' })
}

// parseReports reads the answer of inspect.
func (d dialect) parseReports(answer []byte) ([]report, error) {
	if d == apple {
		return parseAppleReports(answer)
	}
	var list []struct {
		ID    string `json:"Id"`
		Name  string
		State struct {
			Status    string
			ExitCode  int
			OOMKilled bool
			Error     string
		}
		Config          struct{ Labels map[string]string }
		NetworkSettings struct {
			Ports    map[string][]struct{ HostIP, HostPort string }
			Networks map[string]struct{ IPAddress string }
		}
	}
	if err := json.Unmarshal(answer, &list); err != nil {
		return nil, fmt.Errorf("%s inspect: cannot read the answer: %w", d, err)
	}
	var reports []report
	for _, c := range list {
		if c.ID == "" || c.State.Status == "" {
			return nil, fmt.Errorf("%s inspect: the answer has no id or state", d)
		}
		r := report{
			id:        c.ID,
			name:      strings.TrimPrefix(c.Name, "/"),
			status:    c.State.Status,
			exitCode:  c.State.ExitCode,
			oomKilled: c.State.OOMKilled,
			message:   c.State.Error,
			labels:    c.Config.Labels,
		}
		r.addr = c.NetworkSettings.Networks[networkName(r.labels[labelPool])].IPAddress
		for _, n := range c.NetworkSettings.Networks {
			if len(c.NetworkSettings.Networks) == 1 {
				r.addr = n.IPAddress // it is Config.Network, or nerdctl's, which does not report its name
			}
		}
		for _, b := range c.NetworkSettings.Ports["22/tcp"] {
			if b.HostPort != "" {
				r.published = net.JoinHostPort(cmp.Or(b.HostIP, "127.0.0.1"), b.HostPort)
				break
			}
		}
		reports = append(reports, r)
	}
	return reports, nil
}

// parseAppleReports reads the output of Apple's "container inspect" and "container list
// --format json". Releases differ in the place of the address.
func parseAppleReports(answer []byte) ([]report, error) {
	var list []struct {
		Status        string
		Configuration struct {
			ID     string
			Labels map[string]string
		}
		Networks []struct{ Network, Address, IPv4Address string }
	}
	if err := json.Unmarshal(answer, &list); err != nil {
		return nil, fmt.Errorf("container inspect: cannot read the answer: %w", err)
	}
	var reports []report
	for _, c := range list {
		if c.Configuration.ID == "" || c.Status == "" {
			return nil, fmt.Errorf("container inspect: the answer has no id or status")
		}
		r := report{id: c.Configuration.ID, name: c.Configuration.ID, status: c.Status, labels: c.Configuration.Labels}
		for _, n := range c.Networks {
			if n.Network == networkName(r.labels[labelPool]) || len(c.Networks) == 1 {
				r.addr, _, _ = strings.Cut(cmp.Or(n.Address, n.IPv4Address), "/")
			}
		}
		reports = append(reports, r)
	}
	return reports, nil
}

// An imageReport is an engine's report of an image.
type imageReport struct {
	name string // as it was asked for
	id   string // identifies its content
	arch string
	env  []string
}

// parseImage reads the answer of "image inspect" for one image.
func (d dialect) parseImage(answer []byte, arch string) (imageReport, error) {
	type config struct{ Env []string }
	var list []struct {
		ID           string `json:"Id"`
		Architecture string
		Config       config
		// Apple's engine keeps all variants of an image under one name.
		Index    struct{ Digest string }
		Variants []struct {
			Platform struct{ Architecture string }
			Config   struct{ Config config }
		}
	}
	if err := json.Unmarshal(answer, &list); err != nil {
		return imageReport{}, fmt.Errorf("%s image inspect: cannot read the answer: %w", d, err)
	}
	if len(list) == 0 {
		return imageReport{}, fmt.Errorf("%s image inspect: the answer is empty", d)
	}
	i := list[0]
	r := imageReport{id: i.ID, arch: i.Architecture, env: i.Config.Env}
	if d == apple {
		r.id = i.Index.Digest
		for _, v := range i.Variants {
			if r.arch == "" || v.Platform.Architecture == arch {
				r.arch, r.env = v.Platform.Architecture, v.Config.Config.Env
			}
		}
	}
	if r.id == "" {
		return imageReport{}, fmt.Errorf("%s image inspect: the answer has no id", d)
	}
	return r, nil
}

// facts are the properties of an engine that the driver uses.
type facts struct {
	// account distinguishes it from every other engine, also after a restart.
	account   string
	vcpus     float64
	memoryGiB float64
	// remote is true if the engine's 127.0.0.1 is not this machine's.
	remote bool
	// sizedDisk is true if a container's disk can have a size.
	sizedDisk bool
}

// parseFacts reads the answer of info, which lacks docker's contexts.
func (d dialect) parseFacts(answer []byte) (facts, error) {
	var info struct {
		// Docker and nerdctl.
		ID             string
		Name           string
		DockerRootDir  string
		ProductLicense string
		NCPU           float64
		MemTotal       float64
		Driver         string
		ServerErrors   []string
		// Podman.
		Host struct {
			CPUs            float64
			Hostname        string
			MemTotal        float64
			ServiceIsRemote bool
		}
		Store struct{ GraphRoot string }
	}
	if err := json.Unmarshal(answer, &info); err != nil {
		return facts{}, fmt.Errorf("%s info: cannot read the answer: %w", d, err)
	}
	if len(info.ServerErrors) > 0 {
		// Some releases of docker report success without an engine.
		return facts{}, &commandError{command: d.String() + " info", stderr: strings.Join(info.ServerErrors, "\n")}
	}
	if d == podman {
		return facts{account: info.Host.Hostname + ":" + info.Store.GraphRoot,
			vcpus: info.Host.CPUs, memoryGiB: info.Host.MemTotal / gib, remote: info.Host.ServiceIsRemote}, nil
	}
	f := facts{account: info.ID, vcpus: info.NCPU, memoryGiB: info.MemTotal / gib}
	switch {
	case d == nerdctl:
		f.account += "/" + cmp.Or(os.Getenv("CONTAINERD_NAMESPACE"), "default")
	case info.ID == "" || info.ProductLicense == "Apache-2.0":
		// Podman posing as docker makes up an ID for every answer.
		f.account = info.Name + ":" + info.DockerRootDir
	}
	if info.NCPU == 0 {
		return facts{}, fmt.Errorf("%s info: the answer has no NCPU", d)
	}
	f.sizedDisk = d == docker && (info.Driver == "btrfs" || info.Driver == "zfs")
	return f, nil
}

const gib = 1 << 30
