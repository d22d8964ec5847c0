package container

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
)

// A report is what an engine says of a container, whichever engine it is.
type report struct {
	id, name  string
	status    string // as the engine has it: "running"
	exitCode  int
	oomKilled bool
	message   string
	labels    map[string]string
	addr      string // on the pool's network
	published string // where port 22 is on the engine's machine: host:port
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
		return nil, fmt.Errorf("%s inspect: an answer that is not understood: %w", d, err)
	}
	var reports []report
	for _, c := range list {
		if c.ID == "" || c.State.Status == "" {
			return nil, fmt.Errorf("%s inspect: an answer without id or state", d)
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
				r.addr = n.IPAddress // nerdctl does not know it by its name
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

// parseAppleReports reads what Apple's "container inspect" and "container list
// --format json" print. Releases differ in where they put the address.
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
		return nil, fmt.Errorf("container inspect: an answer that is not understood: %w", err)
	}
	var reports []report
	for _, c := range list {
		if c.Configuration.ID == "" || c.Status == "" {
			return nil, fmt.Errorf("container inspect: an answer without id or status")
		}
		r := report{id: c.Configuration.ID, name: c.Configuration.ID, status: c.Status, labels: c.Configuration.Labels}
		for _, n := range c.Networks {
			if n.Network == networkName(r.labels[labelPool]) {
				r.addr, _, _ = strings.Cut(cmp.Or(n.Address, n.IPv4Address), "/")
			}
		}
		reports = append(reports, r)
	}
	return reports, nil
}

// An imageReport is what an engine says of an image.
type imageReport struct {
	name string // by which it was asked for
	id   string // names its content
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
		return imageReport{}, fmt.Errorf("%s image inspect: an answer that is not understood: %w", d, err)
	}
	if len(list) == 0 {
		return imageReport{}, fmt.Errorf("%s image inspect: an empty answer", d)
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
		return imageReport{}, fmt.Errorf("%s image inspect: an answer without id", d)
	}
	return r, nil
}

// facts is what is worth knowing of an engine.
type facts struct {
	// account tells it from every other engine, also after a restart.
	account   string
	vcpus     float64
	memoryGiB float64
	// remote is true where 127.0.0.1 of the engine is not this machine's.
	remote bool
	// sizedDisk is true where a container's disk can be given a size.
	sizedDisk bool
}

// parseFacts reads the answer of info. It does not know of docker's contexts.
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
		return facts{}, fmt.Errorf("%s info: an answer that is not understood: %w", d, err)
	}
	if len(info.ServerErrors) > 0 {
		// Some releases of docker succeed without an engine.
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
		// Podman in docker's clothes makes up an ID for every answer.
		f.account = info.Name + ":" + info.DockerRootDir
	}
	if info.NCPU == 0 {
		return facts{}, fmt.Errorf("%s info: an answer without NCPU", d)
	}
	f.sizedDisk = d == docker && (info.Driver == "btrfs" || info.Driver == "zfs")
	return f, nil
}

const gib = 1 << 30
