package jarvislabs

import (
	"cmp"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

// The parts of the API's requests and answers that are used. The API is loose with types.

// A word is a text, or a number or a boolean as text. Null, and the text "None", are empty.
type word string

func (w *word) UnmarshalJSON(text []byte) error {
	var s string
	if json.Unmarshal(text, &s) != nil || len(text) > 0 && text[0] != '"' {
		s = string(text)
	}
	if s == "null" || s == "None" {
		s = ""
	}
	*w = word(strings.TrimSpace(s))
	return nil
}

var leading = regexp.MustCompile(`^-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?`)

// number reads a number, which may have a unit: "124GB".
func (w word) number() (n float64, known bool) {
	n, err := strconv.ParseFloat(leading.FindString(string(w)), 64)
	return n, err == nil
}

// id returns a number's text as an ID, or "".
func (w word) id() string {
	if n, err := strconv.ParseUint(string(w), 10, 63); err == nil && n > 0 {
		return strconv.FormatUint(n, 10)
	}
	return ""
}

// is reports whether the word is a boolean of that value, in any of its forms.
func (w word) is(b bool) bool { return strings.EqualFold(string(w), strconv.FormatBool(b)) }

// A group is a group of servers of one kind in one place.
type group struct {
	GPU           string `json:"gpu_type"`
	Region        string `json:"region"`
	Free          word   `json:"num_free_devices"`
	EffectiveFree word   `json:"effective_num_free_devices"`
	Price         word   `json:"price_per_hour"` // of one GPU
	SpotPrice     word   `json:"spot_price"`
	VRAM          word   `json:"vram"`
	CPUs          word   `json:"cpus_per_gpu"`
	RAM           word   `json:"ram_per_gpu"`
	Workload      word   `json:"workload_type"`
	Arch          word   `json:"arc"`
}

type createInstance struct {
	GPU       string  `json:"gpu_type"`
	GPUs      int     `json:"num_gpus"`
	Storage   int     `json:"hdd"`
	Region    string  `json:"region"`
	Name      string  `json:"name"`
	Spot      bool    `json:"is_spot"`
	Duration  string  `json:"duration"`
	DiskType  string  `json:"disk_type"`
	HTTPPorts string  `json:"http_ports"`
	ScriptID  *string `json:"script_id"`
	Script    string  `json:"script_args"`
	Files     *int    `json:"fs_id"`
	Arguments string  `json:"arguments"`
}

// An instance has several names for a field in different answers.
type instance struct {
	MachineID    word   `json:"machine_id"`
	Status       string `json:"status"`
	GPU          word   `json:"gpu_type"`
	GPUs         word   `json:"num_gpus"`
	Storage      word   `json:"hdd"`
	Framework    word   `json:"framework"`
	Template     word   `json:"template"`
	InstanceName word   `json:"instance_name"`
	OtherName    word   `json:"name"`
	SSHString    word   `json:"ssh_str"`
	SSHCommand   word   `json:"ssh_command"`
	PublicIP     word   `json:"public_ip"`
	Region       word   `json:"region"`
	Spot         word   `json:"is_spot"`
	CPUs         word   `json:"cores"`
	RAM          word   `json:"ram"`
	Deployment   word   `json:"deployment_id"`
}

func (i instance) name() string { return string(cmp.Or(i.InstanceName, i.OtherName)) }
func (i instance) isVM() bool   { return cmp.Or(i.Framework, i.Template) == vmTemplate }
func (i instance) ssh() string  { return string(cmp.Or(i.SSHString, i.SSHCommand)) }

type sshKey struct {
	Key  string `json:"ssh_key"`
	Name string `json:"key_name"`
	ID   word   `json:"key_id"`
}
