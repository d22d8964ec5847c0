package e2etest

// KeptOutputBytes is how much of an output stream a Result keeps in memory unless gputrain.Limits sets another limit.
const KeptOutputBytes = 1 << 20
