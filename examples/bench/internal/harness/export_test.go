package harness

// Control is the name of the first arm's twin.
const Control = control

// ComparisonOf has measured these times.
func ComparisonOf(times map[string][]float64, base string) *Comparison {
	c := &Comparison{samples: make(map[string][]Cost), base: base}
	for arm, all := range times {
		for _, time := range all {
			c.samples[arm] = append(c.samples[arm], Cost{Time: time})
		}
	}
	return c
}
