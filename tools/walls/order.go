package main

import (
	"math/bits"
	"slices"
)

// largest is the size of the largest circle whose best order is searched for: all its orders take a second and 128 MiB.
const largest = 26

// An arrow is a reference of one file to another.
type arrow struct{ from, to string }

// place puts the files into the order that is known, and those that it does not have below.
func (s *shape) place(known []string) []string {
	order := slices.DeleteFunc(slices.Clone(known), func(file string) bool { return !slices.Contains(s.files, file) })
	for _, file := range s.files {
		if !slices.Contains(order, file) {
			order = append(order, file)
		}
	}
	return order
}

// against lists the arrows between files of the order that run from a later one up to an earlier one.
func (s *shape) against(order []string) []arrow {
	var ups []arrow
	for i, from := range order {
		for _, to := range order[:i] {
			if a := (arrow{from, to}); s.arrows[a] != nil {
				ups = append(ups, a)
			}
		}
	}
	return ups
}

// circles parts the files of the order into circles, between which all arrows run down. It takes the first file that only its
// own circle leads to, with the circle: where all arrows run down the order already, it stays.
func (s *shape) circles(order []string) [][]string {
	var circles [][]string
	for rest := slices.Clone(order); len(rest) > 0; {
		top := rest[slices.IndexFunc(rest, func(file string) bool {
			return !slices.ContainsFunc(rest, func(above string) bool { return s.leads(above, file) && !s.leads(file, above) })
		})]
		circle := slices.DeleteFunc(slices.Clone(rest), func(file string) bool { return !s.leads(top, file) || !s.leads(file, top) })
		circles = append(circles, circle)
		rest = slices.DeleteFunc(rest, func(file string) bool { return slices.Contains(circle, file) })
	}
	return circles
}

// leads tells whether arrows lead from a file to another. Each file leads to itself.
func (s *shape) leads(from, to string) bool {
	if s.reached[from] == nil {
		s.reached[from] = map[string]bool{}
		s.reach(s.reached[from], from)
	}
	return s.reached[from][to]
}

func (s *shape) reach(reached map[string]bool, file string) {
	reached[file] = true
	for _, next := range s.files {
		if s.arrows[arrow{file, next}] != nil && !reached[next] {
			s.reach(reached, next)
		}
	}
}

// fewest returns the order of a circle with fewest arrows up. If that of the files is one, it stays.
func (s *shape) fewest(files []string) []string {
	if len(files) > largest {
		return files
	}
	leadsTo := make([]uint32, len(files)) // each file's arrows, as a set
	for i, from := range files {
		for j, to := range files {
			if s.arrows[arrow{from, to}] != nil {
				leadsTo[i] |= 1 << j
			}
		}
	}
	// For each set of files the fewest arrows up among them. The file that is best as the last one is best for all sets that
	// have the same rest.
	least := make([]uint16, 1<<len(files))
	last := func(set uint32) (best int) {
		fewest := -1
		for rest := set; rest != 0; rest &= rest - 1 {
			file := bits.TrailingZeros32(rest)
			before := set &^ (1 << file)
			if ups := int(least[before]) + bits.OnesCount32(leadsTo[file]&before); fewest < 0 || ups <= fewest {
				fewest, best = ups, file
			}
		}
		least[set] = uint16(fewest)
		return best
	}
	for set := range uint32(len(least) - 1) {
		last(set + 1)
	}
	set := uint32(len(least) - 1)
	if int(least[set]) == len(s.against(files)) {
		return files
	}
	order := make([]string, len(files))
	for i := range slices.Backward(order) {
		file := last(set)
		order[i] = files[file]
		set &^= 1 << file
	}
	return order
}

// count finds the numbers, and an order with fewest arrows up, as near to the wall's as it knows.
func (s *shape) count(w wall) {
	for _, files := range s.circles(s.place(w.order)) {
		s.order = append(s.order, s.fewest(files)...)
		s.counts[circle] = max(s.counts[circle], len(files))
	}
	s.counts[up] = len(s.against(s.order))
	for _, m := range s.methods {
		for kind, number := range s.width(m.typ) {
			s.counts[kind] = max(s.counts[kind], number)
		}
	}
}

// width has a type's numbers: its methods, and their files.
func (s *shape) width(typ string) (width [kinds]int) {
	files := map[string]bool{}
	for _, m := range s.methods {
		if m.typ == typ {
			width[methods]++
			files[m.file] = true
		}
	}
	width[spread] = len(files)
	return width
}
