// Package gateway admits messages: it checks who sent an event, decides what it is and
// what it does to a running turn, stores it under its session key and wakes what works on
// it. The main type is Gateway. Turns, delivery, scheduling and storage are implemented in
// other packages; package pipeline connects them.
package gateway
