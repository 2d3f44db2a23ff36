
Ş
º
'
deployment.environment.name
latest

opencode.client
cli

opencode.run

ea94fb20
!
service.instance.id

ea94fb20

service.name

opencode

service.version
7.7.7


opencode	Info	iNíşbìYiNíşbì2
fiberIdŸÑ*F*D

loop
:
8{"session.id":"ses_ddae0313effeC5qKJ13LJhvcOA","step":0}J”õ´f²»i5M	â¬BßJR<i&C`r