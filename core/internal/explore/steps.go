package explore

// steps: a step whose result an attempt has got is not repeated by a later one, and all
// attempts get the same result, as long as the store knows the key.
func (j *judge) steps(a, b *run) {
	if !a.guarded() || !b.guarded() || a.born != b.born {
		return
	}
	j.repeats(a, b)
	j.repeats(b, a)
	for _, x := range a.recorded {
		for _, y := range b.recorded {
			if x.N == y.N && x.Source != y.Source && !j.late(a, b) {
				j.report(StepDiffers, "step %d of key %d is of r%d for r%d, and of r%d for r%d", x.N, a.key, x.Source, a.id, y.Source, b.id)
			}
		}
	}
}

// stepTooLate: no step begins after the end of its context.
func (j *judge) stepTooLate(r *run) {
	if f := r.stepLate; f != nil && r.guarded() {
		j.report(StepTooLate, "a step of r%d begins at %v, and its context has ended", r.id, f.At)
	}
}

func (j *judge) repeats(first, second *run) {
	for _, got := range first.recorded {
		for _, again := range second.stepped {
			if got.N == again.N && again.At > got.At && !j.late(first, second) {
				j.report(StepRepeated, "r%d repeats step %d at %v, and r%d got its result at %v", second.id, got.N, again.At, first.id, got.At)
			}
		}
	}
}

// late reports whether the attempt with the lower number may have believed in its lease
// for longer than the store, whose clock jumped.
func (j *judge) late(a, b *run) bool { return len(j.plan.Jumps) > 0 && a.attempt() != b.attempt() }
