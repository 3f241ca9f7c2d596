# SPDX-License-Identifier: Apache-2.0
"""Writes gradient.onnx and training-info.onnx, with data, and prints what PyTorch and NumPy say. Needs onnx and torch."""
import numpy as np, onnx, torch
from onnx import helper as H, TensorProto as T, numpy_helper as NH
N=H.make_node; vi=lambda n,t,s:H.make_tensor_value_info(n,t,s)
rng=np.random.default_rng(0)
W=rng.standard_normal((4,3)).astype(np.float32)*.5; b=np.zeros(3,np.float32)
g=H.make_graph([N("Gemm",["x","W","b"],["h"]),N("Tanh",["h"],["y"])],"net",[vi("x",T.FLOAT,["n",4])],[vi("y",T.FLOAT,["n",3])],[NH.from_array(W,"W"),NH.from_array(b,"b")])
TR="ai.onnx.preview.training"
alg=H.make_graph([N("Sub",["y","t"],["d"]),N("Mul",["d","d"],["sq"]),N("ReduceMean",["sq"],["loss"],keepdims=0),
 N("Gradient",["W","b","x","t"],["dW","db"],domain=TR,xs=["W","b"],zs=["x","t"],y="loss"),
 N("Adam",["R","T","W","b","dW","db","mW","mb","vW","vb"],["W2","b2","mW2","mb2","vW2","vb2"],domain=TR,alpha=0.9,beta=0.999,epsilon=1e-8),
 N("Add",["T","one"],["T2"])],"alg",[vi("t",T.FLOAT,["n",3])],[vi("loss",T.FLOAT,[])]+[vi(k,T.FLOAT,s) for k,s in (("W2",[4,3]),("b2",[3]),("mW2",[4,3]),("mb2",[3]),("vW2",[4,3]),("vb2",[3]))]+[vi("T2",T.INT64,[])],
 [NH.from_array(np.float32(0.05),"R"),NH.from_array(np.int64(1),"T"),NH.from_array(np.int64(1),"one")]+[NH.from_array(np.zeros(s,np.float32),k) for k,s in (("mW",(4,3)),("mb",(3,)),("vW",(4,3)),("vb",(3,)))])
init=H.make_graph([N("ConstantOfShape",["sh"],["b0"],value=NH.from_array(np.array([0.25],np.float32)))],"init",[],[vi("b0",T.FLOAT,[3])],[NH.from_array(np.array([3]),"sh")])
ti=onnx.TrainingInfoProto(); ti.algorithm.CopyFrom(alg); ti.initialization.CopyFrom(init)
for k,v in (("W","W2"),("b","b2"),("mW","mW2"),("mb","mb2"),("vW","vW2"),("vb","vb2"),("T","T2")):
    e=ti.update_binding.add(); e.key=k; e.value=v
e=ti.initialization_binding.add(); e.key="b"; e.value="b0"
m=H.make_model(g,opset_imports=[H.make_opsetid("",17),H.make_opsetid(TR,1)],ir_version=9); m.training_info.append(ti); onnx.save(m,"training-info.onnx")
x=rng.standard_normal((64,4)).astype(np.float32); t=np.tanh(x@rng.standard_normal((4,3)).astype(np.float32))
np.savez("training-info.npz",x=x,t=t)
Wt=torch.tensor(W,requires_grad=True); bt=torch.full((3,),.25,requires_grad=True); opt=torch.optim.Adam([Wt,bt],lr=.05,eps=1e-8)
for k in range(4):
    l=((torch.tanh(torch.tensor(x)@Wt+bt)-torch.tensor(t))**2).mean(); opt.zero_grad(); l.backward(); opt.step(); print(l.item())
# substitution: gradient of y=(a*b+a) at other values; and by an initialiser
g=H.make_graph([N("Mul",["a","w"],["p"]),N("Mul",["w","w"],["ww"]),N("Add",["p","ww"],["y"]),N("Neg",["a"],["a2"]),N("Exp",["w"],["w2"]),
 N("Gradient",["a2","w2"],["ga","gw"],domain=TR,xs=["a","w"],y="y"),N("Gradient",["w","a"],["gw1"],domain=TR,xs=["w"],zs=["a"],y="y")],"s",[vi("a",T.FLOAT,[3])],[vi("ga",T.FLOAT,[3]),vi("gw",T.FLOAT,[3]),vi("gw1",T.FLOAT,[3])],[NH.from_array(np.array([1,2,3],np.float32),"w")])
onnx.save(H.make_model(g,opset_imports=[H.make_opsetid("",17),H.make_opsetid(TR,1)],ir_version=9),"gradient.onnx")
a=np.array([5,7,-1],np.float32); np.save("a.npy",a); w=np.array([1,2,3],np.float32); print("ga",np.exp(w),"gw",-a+2*np.exp(w),"gw1",a+2*w)
