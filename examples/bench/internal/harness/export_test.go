package harness

// Control is the name of the first arm's second run.
const Control = control

// ComparisonOf returns a comparison with these measured times.
func ComparisonOf(times map[string][]float64, base string) *Comparison {
	c := &Comparison{samples: make(map[string][]Cost), base: base}
	for arm, all := range times {
		for _, time := range all {
			c.samples[arm] = append(c.samples[arm], Cost{Time: time})
		}
	}
	return c
}
