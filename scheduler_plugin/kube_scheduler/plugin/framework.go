//go:build !k8s_1_34

package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

type (
	anyPlugin           = fwk.Plugin
	handle              = fwk.Handle
	preFilterPlugin     = fwk.PreFilterPlugin
	filterPlugin        = fwk.FilterPlugin
	postFilterPlugin    = fwk.PostFilterPlugin
	scorePlugin         = fwk.ScorePlugin
	reservePlugin       = fwk.ReservePlugin
	enqueueExtensions   = fwk.EnqueueExtensions
	preFilterExtensions = fwk.PreFilterExtensions
	preFilterResult     = fwk.PreFilterResult
	postFilterResult    = fwk.PostFilterResult
	nodeStatuses        = fwk.NodeToStatusReader
	scoreExtensions     = fwk.ScoreExtensions
)

var _ fwk.SignPlugin = &plugin{}

// SignPod has what answers depend on, for opportunistic batching: a pod that follows an equal one may take its scores.
func (p *plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return []fwk.SignFragment{{Key: name, Value: signed(pod)}}, nil
}
