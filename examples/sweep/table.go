package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// A row is one line of the table: a setting, its result, and its node.
type row struct {
	params
	metrics
	Node int
}

// String returns the setting in words.
func (p params) String() string {
	model := "softmax regression"
	if p.Hidden > 0 {
		model = fmt.Sprintf("%d hidden units", p.Hidden)
	}
	return fmt.Sprintf("%s, learning rate %g, L2 %g", model, p.LearningRate, p.L2)
}

// rank sorts the rows, best first, and returns the best. If accuracy does
// not decide, the loss does.
func rank(rows []row) row {
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(b.Accuracy, a.Accuracy), cmp.Compare(a.Loss, b.Loss))
	})
	return rows[0]
}

// table writes the rows as a table.
func table(w io.Writer, rows []row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "#\thidden\trate\tL2\tvalidation\tloss\ttime\tnode\t")
	for i, r := range rows {
		fmt.Fprintf(t, "%d\t%d\t%g\t%g\t%.4f\t%.4f\t%v\t%d\t\n",
			i+1, r.Hidden, r.LearningRate, r.L2, r.Accuracy, r.Loss, r.Time.Round(time.Millisecond), r.Node)
	}
	return t.Flush()
}
