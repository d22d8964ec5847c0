// Package colab makes a pool of one Google Colab runtime: the machine, often with a GPU, behind
// a notebook that its user has opened. The user runs one cell there. The cell authorizes a key
// for SSH through an ngrok TCP tunnel and prints the endpoint. This package adopts the runtime
// as it is, never starts, stops or pays for it, and leaves it as it was.
//
//	endpoint := colab.Endpoint{ // as the cell has printed it
//		Host:    "0.tcp.ngrok.io",
//		Port:    14022,
//		User:    "root",
//		HostKey: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDNyNGLRG6o70LJhEEwiC2vXdZJr5QXvSgNxJIZjNmC4",
//	}
//	pool, err := gputrain.Open(ctx, colab.Config{Endpoint: endpoint}, gputrain.Spec{})
//
// # At a glance
//
//   - GPUs: that of one Colab notebook, which is adopted and left as found.
//   - Spot: no.
//   - Regions: none.
//   - Credentials: a cell run in the notebook, an ngrok account.
//   - Billing: free to gputrain.
//   - Private network: no.
//   - Ends itself: no: its tasks end, the runtime goes on until it is disconnected.
//   - Host key pinned by: the user's word: a fingerprint, mandatory.
//   - Tags: no: the host key, also at a new address.
//   - Tried against: OpenSSH 9.2, with the real cell and a stand-in for ngrok; never on Colab.
//
// # Google's terms
//
// On runtimes without a positive balance of compute units, Google forbids remote control such
// as SSH shells, going around the notebook's interface, and use as a worker of distributed
// computing: such runtimes can be ended without warning. According to Colab's FAQ, paid compute
// units lift these restrictions. The terms change, and the notebook's user must find out
// whether they allow this. The cell does nothing before that user has set
// I_MAY_AUTOMATE_THIS_RUNTIME in it to True.
//
// # The cell
//
// [BootstrapCell] makes its text for a public key. Choose the runtime type (Runtime > Change
// runtime type) in a notebook, paste the cell, set the switch, and run it. It installs an
// OpenSSH server if there is none, with a new host key, that listens only on the loopback and
// accepts only this key; fetches ngrok if it is missing; opens the tunnel; and prints the
// endpoint in Go, as JSON for [ParseEndpoint], and as a line for known_hosts. It must keep
// running. If the tunnel ends, it opens another one with another address, and prints that. When
// it is stopped, it closes the tunnel and the server.
//
// ngrok's token is the notebook's secret NGROK_AUTHTOKEN; without it the cell asks. It goes
// only into ngrok's environment. On ngrok's free plan a TCP tunnel needs a payment card on file
// (ERR_NGROK_8013) and carries out about 1 GB a month: keep data sets out of it, and set
// [Config.KeepCache] for several pools in a row.
//
// Any other tunnel that ends at a host and a port will do, also one on this machine, such as
// that of "cloudflared access tcp": name its end, and the cell's host key.
//
// # Authentication
//
// The user logs in with [Config.KeyFile], or as with providers/ssh. [Endpoint.HostKey] verifies
// the runtime. It is mandatory and never learned at first contact: addresses of public tunnels
// go from one stranger to the next. That key identifies a runtime, not its address. So
// [gputrain.Attach] with the cell's last endpoint takes over a pool whose tunnel was reopened,
// with its tasks.
//
// # The runtime
//
// It is one node, at a price of 0: its compute units are not metered here. Its accelerator is
// found out once it is reached, and is [gputrain.Node.Accelerator]. One that differs from
// Spec.Accelerator is refused as [driver.ErrUnsupported], unless [Config.AcceptAnyGPU] is set.
// A TPU is reported without its kind. Versions of drivers, CUDA and Python are those of Colab's
// image, which changes. The notebook shares the packages that a pool installs.
//
// Its disk and memory are lost when it ends: after at most 12 hours on the free plan, 24 with
// Pro+ in the background, after some 90 idle minutes, or when its memory is used up. A pool
// then loses its node.
//
// # What stays behind
//
// Nothing of the pool, once it is closed or its lease has run out. The runtime itself goes on
// and uses compute units, however the pool has ended, until it is disconnected in the notebook
// (Runtime > Disconnect and delete runtime).
//
// # What can go wrong
//
//   - [driver.ErrInvalid] from Open: the endpoint is incomplete. Paste the cell's whole output.
//   - [driver.ErrHostKey]: another machine is at that address. Nothing was sent to it. Take the
//     cell's last endpoint.
//   - [driver.ErrAuth]: the cell has another key than KeyFile's.
//   - [driver.ErrUnavailable]: the tunnel is gone: its port was refused, or its name unknown,
//     for five seconds, or nothing answered for half a minute. Check that the cell still runs.
//   - [driver.ErrUnsupported]: the runtime has another accelerator.
package colab
