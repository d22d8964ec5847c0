// Package colab makes a pool of one Google Colab runtime: the machine, often with a
// GPU, behind a notebook that its user has opened. The user runs one cell there, which
// lets a key in by SSH through an ngrok TCP tunnel and prints the endpoint. The runtime
// is adopted as it is, never started, stopped or paid for by this package, and left as
// it was found.
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
// On runtimes without a positive balance of compute units Google does not allow remote
// control such as SSH shells, going around the notebook's interface, or use as a worker
// of distributed computing: such runtimes can be ended without warning. With paid
// compute units these restrictions are lifted, as Colab's FAQ has it. The terms change,
// and whether they allow this is for the notebook's user to find out. The cell does
// nothing before that user has set I_MAY_AUTOMATE_THIS_RUNTIME in it to True.
//
// # The cell
//
// [BootstrapCell] makes its text for a public key. In a notebook with the runtime type
// that is wanted (Runtime > Change runtime type), paste it, set the switch, and run it.
// It installs an OpenSSH server where there is none, with a host key made there, that
// listens on the loopback only and takes only this key; fetches ngrok where there is
// none; opens the tunnel; and prints the endpoint in Go, as JSON for [ParseEndpoint],
// and as a line for known_hosts. It then has to go on running. Should the tunnel end it
// opens another, which has another address, and prints that. Stopped, it closes tunnel
// and server.
//
// ngrok's token is the notebook's secret NGROK_AUTHTOKEN, or is asked for; it goes into
// ngrok's environment, and nowhere else. On ngrok's free plan a TCP tunnel needs a payment
// card on file (ERR_NGROK_8013), and about 1 GB a month goes out of the tunnel: keep data
// sets out of it, and set [Config.KeepCache] where one pool follows another.
//
// Any other tunnel that ends at a host and a port will do, also one on this machine, such
// as that of "cloudflared access tcp": name its end, and the key that the cell has made.
//
// # Who is who
//
// The user proves themselves with [Config.KeyFile], or as with providers/ssh. The runtime
// proves itself with [Endpoint.HostKey], which is never left out and never learned at
// first contact: addresses of public tunnels go from one stranger to the next. A runtime is
// known by that key, not by its address. So [gputrain.Attach] with the endpoint that the
// cell has printed last takes up a pool whose tunnel was opened anew, with its tasks.
//
// # The runtime
//
// It is one node, at a price of 0: what it costs in compute units is not metered here.
// Which accelerator it has is found out once it is reached, and shown as
// [gputrain.Node.Accelerator]; one that is not what Spec.Accelerator asks for is refused, as
// [gputrain.ErrUnsupported], unless [Config.AcceptAnyGPU] is set. A TPU is told, but not of
// which kind. Versions of drivers, CUDA and Python are those of Colab's image, which changes.
// Packages that a pool installs are the notebook's too.
//
// Its disk and memory are gone when it ends: after at most 12 hours on the free plan, 24 with
// Pro+ in the background, when it is idle for some 90 minutes, or when its memory is used up.
// A pool then loses its node.
//
// # What stays behind
//
// Nothing of the pool, once it is closed or its lease has run out. The runtime itself goes on,
// and goes on using compute units, until it is disconnected in the notebook (Runtime >
// Disconnect and delete runtime), however the pool has ended.
//
// # What can go wrong
//
//   - [gputrain.ErrInvalid] from Open: the endpoint is not whole. Paste all that the cell prints.
//   - [gputrain.ErrHostKey]: another machine is at that address. Nothing was sent to it. Take the endpoint that the cell has printed last.
//   - [gputrain.ErrAuth]: the cell was given another key than that of KeyFile.
//   - [gputrain.ErrUnavailable]: the tunnel is gone: its port was refused, or its name unknown, for five seconds, or
//     nothing answered for half a minute. See whether the cell still runs.
//   - [gputrain.ErrUnsupported]: the runtime has another accelerator.
package colab
