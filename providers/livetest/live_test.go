package livetest

import (
	"os"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/aws"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/gcp"
	"github.com/gputrain/gputrain/providers/hyperstack"
	"github.com/gputrain/gputrain/providers/jarvislabs"
	"github.com/gputrain/gputrain/providers/lambda"
	"github.com/gputrain/gputrain/providers/massedcompute"
	"github.com/gputrain/gputrain/providers/novita"
	"github.com/gputrain/gputrain/providers/providertest"
	"github.com/gputrain/gputrain/providers/runpod"
	"github.com/gputrain/gputrain/providers/scaleway"
	"github.com/gputrain/gputrain/providers/tensordock"
	"github.com/gputrain/gputrain/providers/vastai"
	"github.com/gputrain/gputrain/providers/verda"
	"github.com/gputrain/gputrain/providers/vultr"
)

func TestMain(m *testing.M) {
	gputrain.Init()
	os.Exit(m.Run())
}

func TestLive(t *testing.T) {
	for name, cloud := range map[string]struct {
		provider    driver.Provider
		accelerator accelerators.Accelerator
	}{
		"aws":           {aws.Config{}, accelerators.T4()},
		"aws cpu":       {provider: aws.Config{}},
		"gcp":           {gcp.Config{}, accelerators.T4()},
		"gcp cpu":       {provider: gcp.Config{}},
		"hyperstack":    {hyperstack.Config{}, accelerators.L40()},
		"jarvislabs":    {jarvislabs.Config{}, accelerators.L4()},
		"lambda":        {lambda.Config{}, accelerators.A10()},
		"massedcompute": {massedcompute.Config{}, accelerators.A30()},
		"novita":        {novita.Config{AllowPasswordAtFirstContact: true}, accelerators.RTX4090()},
		"runpod":        {runpod.Config{}, accelerators.RTX3090()},
		"scaleway":      {scaleway.Config{}, accelerators.L4()},
		"tensordock":    {tensordock.Config{}, accelerators.RTX4090()},
		"vastai":        {vastai.Config{}, accelerators.RTX3090()},
		"verda":         {verda.Config{}, accelerators.V100()},
		"vultr":         {vultr.Config{Region: vultr.Anywhere}, accelerators.L40S()},
		"the cheapest":  {gputrain.Cheapest(vastai.Config{}, runpod.Config{}, aws.Config{}, gcp.Config{}), accelerators.RTX3090()},
	} {
		t.Run(name, func(t *testing.T) {
			providertest.Live(t, cloud.provider, gputrain.Spec{Accelerator: cloud.accelerator, Allocation: driver.CheapestAllocation})
		})
	}
}
