package byname

import (
	"github.com/gputrain/gputrain/providers/colab"
	"github.com/gputrain/gputrain/providers/container"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/hyperstack"
	"github.com/gputrain/gputrain/providers/jarvislabs"
	"github.com/gputrain/gputrain/providers/lambda"
	"github.com/gputrain/gputrain/providers/local"
	"github.com/gputrain/gputrain/providers/massedcompute"
	"github.com/gputrain/gputrain/providers/novita"
	"github.com/gputrain/gputrain/providers/runpod"
	"github.com/gputrain/gputrain/providers/scaleway"
	"github.com/gputrain/gputrain/providers/sim"
	"github.com/gputrain/gputrain/providers/slurm"
	"github.com/gputrain/gputrain/providers/ssh"
	"github.com/gputrain/gputrain/providers/tensordock"
	"github.com/gputrain/gputrain/providers/vastai"
	"github.com/gputrain/gputrain/providers/verda"
	"github.com/gputrain/gputrain/providers/vultr"
)

// Light are the providers whose packages link no vendor's client.
var Light = []driver.Provider{
	colab.Config{},
	container.Config{},
	hyperstack.Config{},
	jarvislabs.Config{},
	lambda.Config{},
	local.Config{},
	massedcompute.Config{},
	novita.Config{},
	runpod.Config{},
	scaleway.Config{},
	sim.Config{},
	slurm.Config{},
	ssh.Config{},
	tensordock.Config{},
	vastai.Config{},
	verda.Config{},
	vultr.Config{},
}
