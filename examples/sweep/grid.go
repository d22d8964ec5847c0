package main

// grid returns the settings of the sweep: every combination.
func grid() []params {
	var all []params
	for _, hidden := range []int{0, 16, 64} {
		for _, rate := range []float64{0.01, 0.03, 0.1, 0.3} {
			for _, l2 := range []float64{0, 1e-4, 1e-3} {
				all = append(all, params{
					Hidden: hidden, LearningRate: rate, L2: l2,
					Momentum: 0.9, Batch: 32, Epochs: 40, Seed: 1,
				})
			}
		}
	}
	return all
}
