//go:build !race

package idemotel_test

const raceDetector = false
